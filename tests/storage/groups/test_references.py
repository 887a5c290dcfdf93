"""Trimming by what groups need, against the plain rule."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.streams.pending import pending_ids

from rillet.storage.groups.group import Group
from rillet.storage.groups.references import forget_later, trim_acked
from rillet.storage.streams.ids import MAX_ID, encode
from rillet.storage.streams.iteration import ids_from
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import Removed, trim

N = 30
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
IDS = st.integers(1, N)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "chunk_entries", 7)


def a_stream(number: int = N) -> Stream:
    stream = Stream()
    for ms in range(1, number + 1):
        stream.append(ms, FIELDS, 0, 4)
    return stream


def a_group(last_id: int, pending: set[int]) -> Group:
    group = Group(last_id)
    consumer = group.create_consumer(b"c", 0)
    for number in sorted(pending):
        group.add_pending(number, consumer, 0, 1)
    return group


def left(stream: Stream) -> list[int]:
    return list(ids_from(stream, 0))


GROUPS = st.lists(st.tuples(st.integers(0, N + 5), st.sets(IDS, max_size=6)), max_size=2)


@example(groups=[(N, {1, 2, 3, 4})], deleted=set(), threshold=N - 1, by_length=True, reports=True)
@given(
    groups=GROUPS,
    deleted=st.sets(IDS, max_size=5),
    threshold=st.integers(0, N),
    by_length=st.booleans(),
    reports=st.booleans(),
)
def test_an_exact_trim_takes_the_oldest_that_no_group_needs(groups, deleted, threshold, by_length, reports):
    stream = a_stream()
    for number in deleted:
        stream.delete(number)
    for at, (last_id, pending) in enumerate(groups):
        stream.groups[b"%d" % at] = a_group(last_id, pending)
    there = left(stream)
    free = [
        number
        for number in there
        if all(number <= last_id and number not in pending for last_id, pending in groups)
    ]
    if by_length:
        doomed = []
        excess = max(len(there) - threshold, 0)
        for node in range(1, N + 1, 4):  # as Redis, it ends with the first that has more than are still to go
            here = range(node, node + 4)
            still = excess - len(doomed)
            doomed += [number for number in free if number in here][:still]
            if len([number for number in there if number in here]) > still:
                break
    else:
        doomed = [number for number in free if number < threshold]
    removed_ids: list[bytes] | None = [] if reports else None
    removed, _ = trim_acked(stream, threshold, by_length=by_length, removed_ids=removed_ids)
    assert removed == len(doomed)
    assert left(stream) == [number for number in there if number not in doomed]
    assert stream.length == len(there) - len(doomed)
    if removed_ids is not None:
        assert removed_ids == [encode(number) for number in doomed]
    # What is known of the macro nodes is what is there.
    assert sum(node.live for node in stream.macro_nodes.all()) == stream.length


def test_references_are_removed_in_steps_and_no_caller_sees_them_in_between():
    stream = a_stream(1000)
    for name, pending in ((b"a", set(range(1, 1001))), (b"b", {5, 900}), (b"c", set())):
        stream.groups[name] = a_group(MAX_ID, pending)
    gone = Removed()
    trim(stream, 500, gone=gone)
    go_on, _ = forget_later(stream, gone)
    a, b = stream.groups[b"a"], stream.groups[b"b"]
    assert a.work is not None is not b.work
    assert stream.groups[b"c"].work is None
    assert go_on()
    assert len(a.pel) == 500
    assert a.work is None
    assert not go_on()
    assert pending_ids(b) == [b"0-900"]
