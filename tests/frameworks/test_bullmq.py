"""BullMQ: queues, flows, schedulers, events."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_jobs_flows_and_schedulers_work_and_a_killed_workers_job_is_run_again(kind):
    use("bullmq", "bullmq", kind)
