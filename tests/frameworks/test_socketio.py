"""Socket.IO: the streams adapter over ioredis and over node-redis."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_servers_share_rooms_and_a_broken_connection_gets_what_it_missed(kind):
    use("socketio", "socketio", kind)
