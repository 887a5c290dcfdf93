"""Test servers in a thread and in a process of their own."""

import pytest

import rillet.testing


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def process(request):
    return request.param


@pytest.fixture(scope="module", params=[False, True], ids=["thread", "process"])
def running(request):
    """A server of each kind, with the directives that a module has in `DIRECTIVES`."""
    with rillet.testing.Server(process=request.param, **getattr(request.module, "DIRECTIVES", {})) as server:
        yield server


@pytest.fixture
def server(running):
    """The same, as if it had just started."""
    running.start()  # a test may have stopped it
    running.reset()
    return running
