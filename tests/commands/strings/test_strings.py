from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, effects, make_client, run

from rillet.commands.strings import get_set as strings
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000
MAX = (1 << 63) - 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["SET", "set", "sEt"]),
            st.sampled_from(["a", "b", "s"]),
            st.binary(max_size=6),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_a_set_of_three_words_is_one_with_options(steps, notified):
    """One without any: what its shortcut gives, the general way gives."""
    twins = []
    for general in (False, True):
        client = make_client(server=FakeServer(now=NOW))
        client.db.add(b"s", Stream())
        effects(client)
        if not notified:
            client.server.keyspace.notify_mask = 0
        seen = []
        for verb, key, value, is_old in steps:
            if is_old and key.encode() in client.db.entries:
                client.db.set_expiry(key.encode(), NOW - 1)
            words = [verb.encode(), key.encode(), value]
            answer = strings._set_with_options(client, words) if general else run(client, *words)
            seen.append((answer, effects(client)))
        entries = {key: value if type(value) is bytes else None for key, value in client.db.entries.items()}
        twins.append((seen, entries, client.db.expires, client.db.accessed, client.server.keyspace.hits))
    assert twins[0] == twins[1]


def test_no_string_grows_beyond_the_limit(client):
    client.server.config.proto_max_bulk_len = 8
    too_long = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
    assert run(client, "SETRANGE", "k", 8, "x") == too_long
    assert run(client, "SETRANGE", "k", 7, "x") == b":8\r\n"
    assert run(client, "APPEND", "k", "x") == too_long
    assert run(client, "SETRANGE", "k", MAX, "x") == too_long
    assert len(client.db.entries[b"k"]) == 8
