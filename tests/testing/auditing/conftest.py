"""A zygote for the workers of this folder, and audits that run beside each other."""

import pytest
from support.ahead import Ahead
from support.auditing.forked import Zygote


@pytest.fixture(scope="session")
def zygote():
    made = Zygote()
    yield made
    made.end()


@pytest.fixture(scope="module")
def _ahead(request):
    made = Ahead(request.session.items)
    yield made
    made.close()


@pytest.fixture
def ahead(_ahead, request):
    """`ahead(work)` is the result of `work` with the parameters of this case; four cases are at work at once."""
    return lambda work: _ahead.result(request.node, work)
