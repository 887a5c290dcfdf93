"""channels-redis: the layer of sorted sets and Lua, and the one of pub/sub."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_channels_and_groups_deliver_up_to_their_capacity(kind):
    use("channels", "channels", kind)
