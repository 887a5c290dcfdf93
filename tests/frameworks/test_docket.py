"""docket: schedules, perpetual tasks, strikes, concurrency limits, leases on a stream."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_tasks_are_scheduled_once_limited_and_redelivered_after_a_crash(kind):
    use("docket", "docket", kind)
