"""An audit is right itself: a worker that breaks one promise is told that one, and nothing else."""

import pytest
from support.auditing.forked import audit
from support.auditing.mutations import CASES, MUTATIONS, SOURCE, mutated

from rillet.testing.auditing import bench, fleet
from rillet.testing.auditing.catalogue import PROMISES

pytestmark = pytest.mark.xdist_group("audits of each mutation")
_SECONDS = 3  # an experiment that waits for what never comes ends so soon


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """A quick supervisor, and no more messages than one read takes: a third of the time of the slowest cases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "_SUPERVISOR_SECONDS", 0.1)
        patch.setattr(bench, "_MOST_SUPERVISOR_SECONDS", 0.3)
        patch.setattr(fleet, "_AT_MOST", 300)
        yield


def test_each_promise_is_broken_in_two_ways():
    assert MUTATIONS.keys() == PROMISES.keys()
    assert all(len(each) >= 2 for each in MUTATIONS.values())


def test_the_worker_of_the_documentation_keeps_all_promises(zygote):
    found = audit(zygote, SOURCE, PROMISES, timeout=20)
    assert {name: each.what for name, each in found.items() if each.result != "kept"} == {}


@pytest.mark.parametrize(("promise", "how"), CASES)
def test_the_promise_that_a_worker_breaks_is_named(zygote, ahead, promise, how):
    def work(promise, how):
        return audit(zygote, mutated(promise, how), ["works", promise], timeout=_SECONDS)

    found = ahead(work)
    assert found[promise].result == "broken", found[promise]
    assert found[promise].evidence


@pytest.mark.heavy
@pytest.mark.parametrize(("promise", "how"), CASES)
def test_no_other_promise_is_named(zygote, ahead, promise, how):
    def work(promise, how):
        return audit(zygote, mutated(promise, how), PROMISES, timeout=_SECONDS)

    found = ahead(work)
    assert {name: each.what for name, each in found.items() if each.result == "broken"}.keys() == {promise}
