from contextlib import ExitStack

import pytest
from support.deployments.replication import FakeReplica, start


@pytest.fixture
def started():
    """`started(kind, *flags)`: a server that ends with the test."""
    with ExitStack() as stack:
        yield lambda kind, *flags: stack.enter_context(start(kind, *flags))


@pytest.fixture
def connect():
    """`connect(server, *capabilities)`: a replica played by the test, closed at its end."""
    with ExitStack() as stack:
        yield lambda server, *capabilities: stack.enter_context(FakeReplica(server, *capabilities))
