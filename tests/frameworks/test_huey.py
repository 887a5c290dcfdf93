"""huey: list, priority and expiring storages."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_tasks_chain_retry_wait_and_keep_their_priority(kind):
    use("huey", "light", kind)
