"""Runs of entries that are claimed or acknowledged together give what single entries give: replies, effects, PEL."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_server import make_client, run

from rillet.commands.streams import xclaim
from rillet.protocol import replies
from rillet.storage.groups import claiming
from rillet.storage.groups.pel import Pel
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.tuning import Tuning

N = 40
NOW = 1_700_000_000_000
OPTIONS = st.lists(
    st.sampled_from(
        [
            ("JUSTID",),
            ("FORCE",),
            ("IDLE", "7"),
            ("TIME", "5"),
            ("RETRYCOUNT", "3"),
            ("LASTID", "30-0"),
            ("bad",),
        ]
    ),
    max_size=3,
)
# Mostly neighbours, sometimes spelled in other ways, repeated, unknown or no ids at all.
WORDS = st.one_of(
    st.tuples(st.integers(1, N), st.integers(1, 12)).map(
        lambda run: [f"{ms}-0" for ms in range(run[0], run[0] + run[1])]
    ),
    st.lists(st.sampled_from(["1-0", "2-0", "3-0", "03-0", "4", "9-0", "77-0", "x"]), min_size=1, max_size=4),
)
# Runs of few entries go beyond one chunk and one page; plain books, which know no runs, are tested elsewhere.
TINY = Tuning(chunk_entries=8, page=8, plain=0)
DENSE = Tuning(plain=0)
STEP = st.one_of(
    st.tuples(st.just("read"), st.sampled_from("ab"), st.integers(1, 15)),
    st.tuples(st.just("claim"), st.sampled_from("abc"), st.sampled_from([0, 0, 50]), WORDS, OPTIONS),
    st.tuples(st.just("replay"), st.sampled_from("ab"), st.integers(1, N), st.integers(8, 15), st.integers(0, 3), st.integers(1, 2)),
    st.tuples(st.just("ack"), WORDS),
    st.tuples(st.just("autoclaim"), st.sampled_from("ab"), st.sampled_from([0, 50]), st.integers(1, N), st.integers(1, 12)),
    st.tuples(st.just("delete"), st.integers(1, N)),
    st.tuples(st.just("wait"), st.sampled_from([1, 60])),
)  # fmt: skip


def command(step) -> list[str | int]:
    name, *rest = step
    if name == "replay":  # what a read left in a file
        who, first, number, ms, count = rest
        ids = [f"{each}-0" for each in range(first, min(first + number, N + 1))]
        return [
            "XCLAIM",
            "s",
            "g",
            who,
            0,
            *ids,
            "TIME",
            NOW - ms,
            "RETRYCOUNT",
            count,
            "FORCE",
            "JUSTID",
            "LASTID",
            ids[0],
        ]
    if name == "read":
        who, count = rest
        return ["XREADGROUP", "GROUP", "g", who, "COUNT", count, "STREAMS", "s", ">"]
    if name == "claim":
        who, idle, ids, options = rest
        return ["XCLAIM", "s", "g", who, idle, *ids, *[word for option in options for word in option]]
    if name == "ack":
        return ["XACK", "s", "g", *rest[0]]
    if name == "autoclaim":
        who, idle, start, count = rest
        return ["XAUTOCLAIM", "s", "g", who, idle, f"{start}-0", "COUNT", count]
    return ["XDEL", "s", f"{rest[0]}-0"]


def a_client(tuning):
    client = make_client()
    client.db.add(b"s", Stream(tuning))
    client.server.propagation.active = True
    for ms in range(1, N + 1):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    return client


def single_entries(stream, ms, seq, start, stop, _are_many):
    """As ``iteration.find_runs``, by looking each ID up."""
    runs = []
    for at in range(start, stop):
        number = ms[at] << 64 | seq[at]
        found = [(chunk, chunk.find(number), at, 1) for chunk in stream.chunks if chunk.find(number) >= 0]
        runs += found
    return runs


def one_by_one():
    """No entries are found to be neighbours."""
    return (
        mock.patch.object(xclaim, "_find_run", return_value=None),
        mock.patch.object(claiming, "find_runs", single_entries),
        mock.patch.object(Pel, "_line_up", return_value=None),
        mock.patch.object(Pel, "_run", return_value=None),
    )


@settings(deadline=None)
@given(st.lists(STEP, max_size=25))
def test_runs_give_what_single_entries_give(steps):
    quick, slow = a_client(TINY), a_client(TINY)
    for step in steps:
        if step[0] == "wait":
            quick.server.advance(step[1])
            slow.server.advance(step[1])
            continue
        words = command(step)
        found = run(quick, *words)
        patches = one_by_one()
        for patch in patches:
            patch.start()
        try:
            assert run(slow, *words) == found
        finally:
            for patch in patches:
                patch.stop()
        assert quick.server.propagation.effects == slow.server.propagation.effects
        for client in (quick, slow):
            stream = client.db.entries[b"s"]
            stream.check_invariants()
            stream.groups[b"g"].check_invariants()
        assert quick.server.keyspace.dirty == slow.server.keyspace.dirty
        for more in ((), ("a",), ("b",)):
            look = ("XPENDING", "s", "g", "-", "+", "100", *more)
            assert run(quick, *look) == run(slow, *look)


@pytest.mark.parametrize("count", [8, 12, 100])
def test_neighbours_are_claimed_as_one_run(count):
    client = a_client(DENSE)
    run(client, "XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    with mock.patch.object(claiming, "_claim_each", side_effect=AssertionError):
        run(client, "XCLAIM", "s", "g", "b", 0, *[f"{ms}-0" for ms in range(1, min(count, N) + 1)], "JUSTID")
    consumer = client.db.entries[b"s"].groups[b"g"].consumers[b"b"]
    assert consumer.pending == min(count, N)
    assert len(consumer.batches) == 1


def test_a_forced_run_leaves_those_alone_that_are_pending_and_young():
    client = a_client(DENSE)
    run(client, "XREADGROUP", "GROUP", "g", "a", "COUNT", 10, "STREAMS", "s", ">")
    ids = [f"{ms}-0" for ms in range(5, 17)]
    claimed = run(client, "XCLAIM", "s", "g", "b", 50, *ids, "FORCE", "JUSTID")
    assert claimed == replies.bulk_array([b"%d-0" % ms for ms in range(11, 17)])
    consumers = client.db.entries[b"s"].groups[b"g"].consumers
    assert [consumers[name].pending for name in (b"a", b"b")] == [10, 6]


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("young", [0, 1])
@pytest.mark.parametrize("deleted", [0, 1])
def test_one_young_or_deleted_entry_does_not_break_an_autoclaim_into_single_entries(
    is_shared, young, deleted
):
    client = a_client(DENSE)
    run(client, "XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    client.server.advance(100)
    if not is_shared:
        run(client, "XTRIM", "s", "MAXLEN", N - 1)  # the chunk takes other columns than the page has
    if young:
        run(client, "XCLAIM", "s", "g", "c", 0, "20-0")
    if deleted:
        run(client, "XDEL", "s", "30-0")
    stream = client.db.entries[b"s"]
    group = stream.groups[b"g"]
    with (
        mock.patch.object(Stream, "entry", side_effect=AssertionError),
        mock.patch.object(claiming, "entries_at", wraps=claiming.entries_at) as entries,
    ):
        run(client, "XAUTOCLAIM", "s", "g", "b", 50, "-", "COUNT", N)
    (found,) = [claiming.entries_at(*call.args) for call in entries.call_args_list]
    assert len(found) <= 1 + young + deleted
    consumer = group.consumers[b"b"]
    assert consumer.pending == N - young - deleted - (not is_shared)
    assert len(consumer.batches) == 1
