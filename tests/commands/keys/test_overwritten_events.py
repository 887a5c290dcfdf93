"""The keyspace events of Redis 8.2: overwritten and type_changed."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, run

from rillet.storage.keyspace import notifications as events


@pytest.fixture
def client():
    """A string k, a string l and a stream s; only the two new classes and the commands' own are heard."""
    client = make_client()
    for words in ("SET k 1", "SET l 2", "XADD s 1-0 a b"):
        run(client, *words.split())
    client.server.events.clear()
    client.server.keyspace.notify_mask = (
        events.OVERWRITTEN | events.TYPE_CHANGED | events.STRING | events.GENERIC
    )
    return client


@pytest.mark.parametrize("expired", ["SET k 2", "RENAME l k"])
def test_a_value_past_its_time_is_not_overwritten(client, expired):
    client.db.set_expiry(b"k", client.server.keyspace.now + 10)
    client.server.advance(11)
    run(client, *expired.split())
    assert b"overwritten" not in [event for event, _ in client.server.events]
