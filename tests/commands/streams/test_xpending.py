"""XPENDING: summary and range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import make_client, reply, run
from support.groups import group_client

from rillet.protocol import replies
from rillet.storage.groups.pending import UNOWNED_MS
from rillet.storage.streams.ids import encode
from rillet.storage.streams.stream import Stream


@pytest.fixture
def client():
    """1-0 and 2-0 with c for 300 ms, 3-0 with d for 200 ms, 4-0 with c for 100 ms."""
    client = group_client(4)
    for consumer, count in (("c", "2"), ("d", "1"), ("c", "1")):
        run(client, "XREADGROUP", "GROUP", "g", consumer, "COUNT", count, "STREAMS", "s", ">")
        client.server.advance(100)
    return client


def ids(client, *words: str) -> list[int]:
    return [int(item[0].split(b"-")[0]) for item in reply(client, "XPENDING", "s", "g", *words)]


def test_a_clock_set_back_shows_no_negative_idle_time(client):
    client.server.advance(-10_000)
    assert [item[2] for item in reply(client, "XPENDING", "s", "g", "-", "+", "10")] == [0] * 4


SEQUENCES = st.integers(0, 2) | st.integers(8, 11)
IDS = st.sets(st.tuples(st.integers(7, 12) | st.just(1_700_000_000_000), SEQUENCES), min_size=1).map(sorted)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.sampled_from("ab"), st.integers(1, 20)),
        st.tuples(st.just("claim"), st.sampled_from("ab"), st.sets(st.integers(0, 40), max_size=3)),
        st.tuples(st.sampled_from(["ack", "delete", "release"]), st.just(""), st.sets(st.integers(0, 40))),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 2000)),
    ),
    max_size=8,
)
SIZES = st.sampled_from([128, 8])


@given(IDS, STEPS, st.integers(1, 50), SIZES)
def test_what_is_pending_is_listed_and_read_again_one_by_one(ids, steps, count, chunk_entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "chunk_entries", chunk_entries)
        _list_and_read(ids, steps, count)


def _list_and_read(ids, steps, count):
    client = make_client()
    stream = Stream()
    client.db.add(b"s", stream)
    words = [f"{ms}-{seq}" for ms, seq in ids]
    for word in words:
        run(client, "XADD", "s", word, "*2\r\n$15\r\n", "v")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    for step, who, what in steps:
        some = [] if isinstance(what, int) else [words[at] for at in what if at < len(words)]
        if step == "read":
            run(client, "XREADGROUP", "GROUP", "g", who, "COUNT", what, "STREAMS", "s", ">")
        elif step == "wait":
            client.server.advance(what)
        elif step == "claim" and some:
            run(client, "XCLAIM", "s", "g", who, 0, *some)
        elif step == "ack" and some:
            run(client, "XACK", "s", "g", *some)
        elif step == "delete" and some:
            run(client, "XDEL", "s", *some)
        elif step == "release" and some:
            run(client, "XNACK", "s", "g", "FAIL", "IDS", len(some), *some)
    now = client.server.keyspace.now
    rows = [
        b"*4\r\n%b%b:%d\r\n:%d\r\n"
        % (
            replies.bulk(entry.text),
            replies.bulk(entry.consumer.name),
            -1 if entry.ms == UNOWNED_MS else now - entry.ms,
            entry.count,
        )
        for entry in stream.groups[b"g"]
    ]
    expected = b"*%d\r\n%b" % (min(count, len(rows)), b"".join(rows[:count]))
    assert run(client, "XPENDING", "s", "g", "-", "+", count) == expected
    mine = [entry.number for entry in stream.groups[b"g"] if entry.consumer.name == b"a"][:count]
    missing = b"*2\r\n%b*-1\r\n"
    items = [stream.entry(each) or missing % replies.bulk(encode(each)) for each in mine]
    again = run(client, "XREADGROUP", "GROUP", "g", "a", "COUNT", count, "STREAMS", "s", 0)
    assert again == b"*1\r\n*2\r\n$1\r\ns\r\n*%d\r\n%b" % (len(items), b"".join(items))
