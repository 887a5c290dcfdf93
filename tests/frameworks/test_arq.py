"""arq: jobs in sorted sets, results, cron, aborts."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_jobs_retry_wait_and_abort_and_a_killed_workers_job_is_taken_up(kind):
    use("arq", "arq", kind)
