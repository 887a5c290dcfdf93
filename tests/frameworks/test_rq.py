"""rq: queues, results, dependencies, the scheduler, abandoned jobs."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_jobs_retry_depend_and_repeat_and_a_killed_workers_job_is_found(kind):
    use("rq", "light", kind)
