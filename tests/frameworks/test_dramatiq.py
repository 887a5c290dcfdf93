"""dramatiq: its Lua broker, results, rate limits."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_messages_retry_wait_and_group_and_a_killed_workers_message_is_requeued(kind):
    use("dramatiq", "light", kind)
