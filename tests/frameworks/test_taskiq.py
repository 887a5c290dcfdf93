"""taskiq-redis: three brokers, results, two schedule sources."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_tasks_get_results_and_a_killed_workers_task_is_claimed(kind):
    use("taskiq", "light", kind)
