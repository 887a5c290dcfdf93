"""XCLAIM records of a file that run as one XCLAIM leave what they leave one by one."""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.invariants import check_invariants
from support.live import words

from rillet.server.config.config import Config
from rillet.server.persistence import aof_replay, joined_claims
from rillet.server.persistence.aof_replay import LoaderClient, replay
from rillet.server.persistence.joined_claims import join_claims
from rillet.server.server import Server

N = 30
NOW = 1_700_000_000_000
SETUP = [*(f"XADD s {ms}-0 f v" for ms in range(1, N + 1)), "XGROUP CREATE s g 0", "XGROUP CREATE s h 0"]


def record(ms, *, group="g", consumer="c", time=NOW, count=1, last="0-0"):
    return f"XCLAIM s {group} {consumer} 0 {ms} TIME {time} RETRYCOUNT {count} FORCE JUSTID LASTID {last}"


def batch_of(*lines: str) -> list[list[bytes]]:
    return words("\n".join(lines))


# What a read or a claim left, and records around them that differ in one thing.
RUN = st.builds(
    lambda first, number, group, who, time, count, own: [
        record(f"{ms}-0", group=group, consumer=who, time=time, count=count, last=f"{ms if own else first}-0")
        for ms in range(first, first + number)
    ],
    st.integers(1, N),
    st.integers(1, 14),
    st.sampled_from("gh"),
    st.sampled_from("cd"),
    st.sampled_from([NOW, NOW - 1, NOW + 5]),
    st.integers(0, 3),
    st.booleans(),
)
ODD = st.sampled_from(
    [
        [record("3-0", last="x")], [record("x")], [record("3")], [record("03-0")],
        [record("3-0", group="missing"), record("4-0", group="missing")], [record("5-0", consumer="d")], ["MULTI"],
        ["EXEC"], ["XACK s g 1-0 2-0 9-0"], ["XDEL s 4-0 12-0"], ["XGROUP SETID s g 9-0 ENTRIESREAD 9"],
        ["XCLAIM s g c 0 7-0 JUSTID"],
    ]
)  # fmt: skip


def loaded(batch: list[list[bytes]]) -> list[bytes | None]:
    """What a server shows after it has replayed a batch."""
    server = Server(Config(), quiet=True)
    server.clock.freeze(NOW)
    server.keyspace.now = NOW
    client = LoaderClient(server)
    replay(server, mock.Mock(), client, batch_of(*SETUP))
    replay(server, mock.Mock(), client, batch)
    for group in server.keyspace.databases[0].entries[b"s"].groups.values():
        check_invariants(group)
    looks = ["XINFO STREAM s FULL COUNT 0", "XINFO CONSUMERS s g"]
    looks += [f"XPENDING s {group} IDLE 0 - + 100" for group in "gh"]
    looks += [f"XAUTOCLAIM s {group} e 0 0 COUNT 10 JUSTID" for group in "gh"]
    looks += ["XREADGROUP GROUP g e CLAIM 0 COUNT 9 STREAMS s >"]
    return [server.dispatcher.find(argv).handler(client, argv) for argv in batch_of(*looks)]


@settings(deadline=None)
@given(st.lists(RUN | ODD, max_size=8))
def test_joined_records_leave_what_single_ones_leave(pieces):
    batch = batch_of(*[line for piece in pieces for line in piece]) if any(pieces) else []
    found = loaded(batch)
    with mock.patch.object(aof_replay, "join_claims", return_value=None):
        assert loaded(batch) == found


@pytest.mark.parametrize("last", ["0-0", None])
def test_a_run_of_records_is_one_command(last):
    ids = ["8-0", "9-0", "10-0"]
    batch = batch_of("MULTI", *[record(word, last=last or word) for word in ids], "EXEC")
    joined = join_claims(batch, 1)
    assert joined is not None
    argv, number = joined
    assert number == 3
    assert batch_of(
        f"XCLAIM s g c 0 8-0 9-0 10-0 TIME {NOW} RETRYCOUNT 1 FORCE JUSTID LASTID {last or '10-0'}"
    ) == [argv]


@pytest.mark.parametrize(
    "other",
    [
        record("2-0", group="h"), record("2-0", consumer="d"), record("2-0", time=NOW - 1), record("2-0", count=2),
        record("2-0", last="x"), record("2-0").replace(" 0 2-0", " 1 2-0"), record("2-0").replace("JUSTID", "FORCE"),
        record("2-0") + " JUSTID", "XACK s g 1-0",
    ],
)  # fmt: skip
def test_records_that_differ_in_more_than_the_entry_are_not_joined(other):
    assert join_claims(batch_of(record("1-0"), other), 0) is None
    assert join_claims(batch_of(record("1-0"), record("3-0"), other), 0) is None or not other.endswith(" x")


def test_the_last_record_of_a_batch_stands_alone():
    assert join_claims(batch_of(record("1-0")), 0) is None


@pytest.mark.parametrize("odd", [{"group": "missing"}, {"last": "x"}])
def test_a_run_of_records_that_cannot_be_joined_is_tried_once(odd):
    ids = [f"{ms}-0" for ms in range(1, 201)]
    batch = batch_of(*[record(word, **odd) for word in ids])
    reply, parse = aof_replay._reply, joined_claims.parse
    ran: list[int] = []
    looked_at: list[bytes] = []
    with (
        mock.patch.object(aof_replay, "_reply", lambda *call: ran.append(len(call[2])) or reply(*call)),
        mock.patch.object(joined_claims, "parse", lambda word: looked_at.append(word) or parse(word)),
    ):
        loaded(batch)
    assert sum(ran) < 3 * sum(map(len, batch))
    assert len(looked_at) < 10


def test_records_that_stand_alone_are_not_tried():
    batch = batch_of(*[line for ms in range(1, N + 1) for line in (record(f"{ms}-0"), f"XACK s g {ms}-0")])
    batch += batch_of(record("1-0"), record("2-0", group="h"), "MULTI", record("3-0"), "EXEC", record("4-0"))
    with mock.patch.object(aof_replay, "join_claims", side_effect=AssertionError):
        loaded(batch)
