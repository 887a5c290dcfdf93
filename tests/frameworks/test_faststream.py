"""FastStream: stream groups, batches, lists, channels, requests."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_streams_lists_channels_and_replies_work_and_a_lost_message_is_claimed(kind):
    use("faststream", "light", kind)
