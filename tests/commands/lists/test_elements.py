"""Lists in rewritten files, digests and copies; scripts/lists.script has the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run

from rillet.commands.keys import sort as sorting  # noqa: F401 - they declare commands
from rillet.commands.lists import blocking as list_blocking  # noqa: F401 - they declare commands
from rillet.protocol.requests import RequestParser
from rillet.server.debugging.digest import keyspace_digest
from rillet.storage.aof.rewrite import rewrite_commands

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=150), max_size=4))
def test_a_rewritten_file_makes_the_same_lists(contents):
    first, second = (make_client(server=FakeServer(now=NOW)) for _ in range(2))
    for number, words in enumerate(contents):
        run(first, "RPUSH", f"list {number}", *words)
        run(first, "LPUSH", f"list {number}", *words)
    parser = RequestParser()
    for argv in parser.feed(b"".join(rewrite_commands(first.server.keyspace))):
        if argv[0] != b"SELECT":
            run(second, *argv)
    assert keyspace_digest(first.server.keyspace) == keyspace_digest(second.server.keyspace)


def test_a_digest_minds_the_order(client):
    run(client, "RPUSH", "l", "a", "b")
    before = keyspace_digest(client.server.keyspace)
    run(client, "LMOVE", "l", "l", "LEFT", "RIGHT")
    assert keyspace_digest(client.server.keyspace) != before


def test_a_copy_does_not_change_with_its_original(client):
    run(client, "RPUSH", "l", "a", "b")
    twin = client.db.entries[b"l"].copy()
    run(client, "LSET", "l", "0", "x")
    assert list(twin.digest_parts()) == [b"a", b"b"]
