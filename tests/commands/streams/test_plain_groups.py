"""Groups with plain books give what groups with dense ones give, however often the books are rewritten."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_server import make_client, run
from support.groups import FAMILIES

from rillet.commands.streams import xack, xdel
from rillet.storage.groups.dense import Dense
from rillet.storage.groups.plain import Plain
from rillet.storage.groups.stream_value import digest_parts
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.tuning import Tuning

FAMILIES += (xack, xdel)

N = 24
DENSE = Tuning(chunk_entries=8, page=8, plain=0)
OPTIONS = st.lists(
    st.sampled_from(
        [
            ("JUSTID",),
            ("FORCE",),
            ("IDLE", "7"),
            ("TIME", "5"),
            ("RETRYCOUNT", "3"),
            ("LASTID", "20-0"),
            ("bad",),
        ]
    ),
    max_size=2,
)
# Ids as they are, some spelled in other ways, unknown or none at all.
NEAR = st.integers(1, 12).map("{}-0".format)
WORD = st.one_of(NEAR, NEAR, st.sampled_from(["03-0", "4", "5-00", "20-0", "77-0", "x"]))
WORDS = st.one_of(
    st.lists(NEAR, min_size=1, max_size=7, unique=True),
    st.lists(NEAR, min_size=1, max_size=4),
    st.lists(WORD, min_size=1, max_size=4),
)
WHO = st.sampled_from("abc")
IDLE = st.sampled_from([0, 0, 0, 50])
STEPS = (
    st.tuples(WHO, st.integers(1, 6)).map(
        lambda read: ["XREADGROUP", "GROUP", "g", read[0], "COUNT", read[1], "STREAMS", "s", ">"]
    ),
    st.tuples(WHO, IDLE, WORDS, OPTIONS).map(
        lambda claim: [
            "XCLAIM",
            "s",
            "g",
            *claim[:2],
            *claim[2],
            *[word for option in claim[3] for word in option],
        ]
    ),
    st.tuples(WHO, IDLE, st.integers(0, N), st.integers(1, 9), st.sampled_from([[], ["JUSTID"]])).map(
        lambda claim: ["XAUTOCLAIM", "s", "g", *claim[:3], "COUNT", claim[3], *claim[4]]
    ),
    WORDS.map(lambda ids: ["XACK", "s", "g", *ids]),
    st.tuples(WHO, st.integers(0, N), st.integers(1, 6)).map(
        lambda read: ["XREADGROUP", "GROUP", "g", read[0], "COUNT", read[2], "STREAMS", "s", read[1]]
    ),
    st.tuples(WHO, st.integers(1, 6)).map(
        lambda read: ["XREADGROUP", "GROUP", "g", read[0], "COUNT", read[1], "CLAIM", 40, "STREAMS", "s", ">"]
    ),
    st.tuples(st.sampled_from(["SILENT", "FAIL", "FATAL"]), WORDS).map(
        lambda nack: ["XNACK", "s", "g", nack[0], "IDS", len(nack[1]), *nack[1]]
    ),
    WORD.map(lambda word: ["XDEL", "s", word]),
    st.integers(10, N).map(lambda left: ["XTRIM", "s", "MAXLEN", left]),
    st.tuples(st.sampled_from(["KEEPREF", "DELREF", "ACKED"]), WORDS).map(
        lambda ack: ["XACKDEL", "s", "g", ack[0], "IDS", len(ack[1]), *ack[1]]
    ),
    WHO.map(lambda name: ["XGROUP", "DELCONSUMER", "s", "g", name]),
    st.integers(0, N).map(lambda number: ["XGROUP", "SETID", "s", "g", number]),
    st.just("copy"),
    st.just("rewrite"),
    st.sampled_from([1, 60, 60, -3]),
)
# What is claimed and acknowledged by name comes most often.
STEP = st.sampled_from([*STEPS[:3] * 3, STEPS[1], STEPS[1], *STEPS]).flatmap(lambda step: step)
LOOKS = (
    ("XPENDING", "s", "g"),
    *[
        ("XPENDING", "s", "g", *idle, "-", "+", "100", *who)
        for idle in ((), ("IDLE", "30"))
        for who in ((), ("a",), ("b",))
    ],
    ("XPENDING", "s", "g", "5", "20", "3"),
    ("XINFO", "STREAM", "s", "FULL", "COUNT", "0"),
)


def a_client(tuning: Tuning):
    """Group g of a stream of 24 has delivered 1-0 to 5-0 to a, and 6-0 to 10-0 to b."""
    client = make_client()
    client.db.add(b"s", Stream(tuning))
    client.server.propagation.active = True
    for ms in range(1, N + 1):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    for name in "ab":
        run(client, "XREADGROUP", "GROUP", "g", name, "COUNT", 5, "STREAMS", "s", ">")
    return client


def copy(client) -> None:
    stream = client.db.entries[b"s"]
    client.db.remove(b"s")
    client.db.add(b"s", stream.copy())


@settings(deadline=None)
@given(
    st.lists(STEP, min_size=8, max_size=20),
    st.sampled_from([4, 100, 100]),
    st.sampled_from([3, 100]),
    st.sampled_from([1, 9]),
)
def test_plain_books_give_what_dense_ones_give(steps, plain, together, rewriting):
    tuning = Tuning(chunk_entries=8, page=8, plain=plain, together=together, rewriting=rewriting, slack=3)
    one, other = a_client(tuning), a_client(DENSE)
    one.db.entries[b"s"].groups[b"g"].become_plain()
    for step in steps:
        group = one.db.entries[b"s"].groups[b"g"]
        if step == "rewrite":
            if type(group.books) is Dense:
                group.become_plain()
            else:
                group.become_dense()
        elif isinstance(step, int):
            one.server.advance(step)
            other.server.advance(step)
        elif step == "copy":
            copy(one)
            copy(other)
        else:
            assert run(one, *step) == run(other, *step)
        assert one.server.propagation.effects == other.server.propagation.effects
        assert one.server.keyspace.dirty == other.server.keyspace.dirty
        for client in (one, other):
            stream = client.db.entries[b"s"]
            stream.check_invariants()
            stream.groups[b"g"].check_invariants()
        assert type(other.db.entries[b"s"].groups[b"g"].books) is Dense
        for look in LOOKS:
            assert run(one, *look) == run(other, *look)
        assert [*digest_parts(one.db.entries[b"s"])] == [*digest_parts(other.db.entries[b"s"])]


def books_after(*commands: tuple[str | int, ...], pending: int):
    client = make_client()
    for ms in range(1, 3001):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    run(client, "XREADGROUP", "GROUP", "g", "a", "COUNT", pending, "STREAMS", "s", ">")
    for words in commands:
        run(client, *words)
    return type(client.db.entries[b"s"].groups[b"g"].books)


READ_ONE = ("XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "STREAMS", "s", ">")
READ_TEN = ("XREADGROUP", "GROUP", "g", "a", "COUNT", 10, "STREAMS", "s", ">")
READ_MANY = ("XREADGROUP", "GROUP", "g", "a", "COUNT", 200, "STREAMS", "s", ">")
ACKS = [("XACK", "s", "g", f"{ms}-0") for ms in range(1, 3001)]
CLAIMS = [("XCLAIM", "s", "g", "b", 0, f"{ms}-0") for ms in range(1, 3001)]


def test_a_group_is_dense_while_nothing_is_claimed():
    assert books_after(pending=1) is Dense
    assert books_after(*[READ_ONE] * 50, *ACKS[:51], pending=1) is Dense
    assert books_after(*[READ_TEN] * 10, *ACKS[:80], pending=100) is Dense


def test_a_group_becomes_plain_when_a_quarter_of_its_entries_is_claimed_one_by_one():
    assert books_after(*CLAIMS[:25], pending=100) is Dense
    assert books_after(*CLAIMS[:26], pending=100) is Plain
    assert books_after(*[("XAUTOCLAIM", "s", "g", "b", 0, 0, "COUNT", 5)] * 6, pending=100) is Plain
    assert books_after(*[("XAUTOCLAIM", "s", "g", "b", 0, 0, "COUNT", 50)] * 6, pending=100) is Dense


def test_a_plain_group_becomes_dense_when_more_is_delivered_than_claimed():
    assert books_after(*CLAIMS[:26], *ACKS[:100], pending=100) is Plain
    assert books_after(*CLAIMS[:26], *[READ_TEN] * 5, *ACKS[:150], pending=100) is Plain
    assert books_after(*CLAIMS[:26], READ_MANY, pending=100) is Dense
    assert books_after(*CLAIMS[:26], *ACKS[:100], *[READ_TEN, *ACKS[100:200]] * 6, pending=100) is Dense


def test_a_plain_group_stays_so_while_entries_are_claimed_between_deliveries():
    assert books_after(*CLAIMS[:26], *[READ_TEN, CLAIMS[50]] * 50, pending=100) is Plain


def test_a_large_group_is_dense_however_it_is_used():
    assert books_after(*CLAIMS[:1200], pending=2500) is Dense
    assert books_after(*CLAIMS[:26], *[READ_TEN, CLAIMS[50]] * 190, pending=100) is Plain
    assert books_after(*CLAIMS[:26], *[READ_TEN, CLAIMS[50]] * 200, pending=100) is Dense
