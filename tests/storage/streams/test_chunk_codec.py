from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.streams.chunk_codec import Columns, narrowed, pack
from rillet.storage.streams.ids import MAX_U64

U64 = st.integers(0, MAX_U64)
STEPS = st.sampled_from([0, 1, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32])


def columns_of(entries: list[tuple[int, int, bytes, int]], trimmed: bytes = b"") -> Columns:
    """Of (ms, seq, data, length of the head) each."""
    offsets = array("I", [len(trimmed)])
    for entry in entries:
        offsets.append(offsets[-1] + len(entry[2]))
    data = trimmed + b"".join([entry[2] for entry in entries])
    ms, seq = (array("Q", [entry[half] for entry in entries]) for half in (0, 1))
    return Columns(data, ms, seq, offsets, bytearray(entry[3] for entry in entries))


@given(
    st.lists(st.tuples(U64, U64, st.binary(max_size=300), st.integers(0, 255)), min_size=1, max_size=130),
    st.binary(max_size=10),
)
def test_columns_come_out_as_they_went_in_but_for_what_was_trimmed(entries, trimmed):
    packed = pack(columns_of(entries, trimmed))
    expected = columns_of(entries)
    assert packed.columns() == expected
    assert packed.data() == expected.data
    assert (len(packed), packed.payload_bytes) == (len(entries), len(expected.data))


@given(st.integers(0, 1 << 50), st.lists(STEPS, min_size=1, max_size=10), U64)
def test_ascending_ids_come_out_whatever_the_steps_between_them(first, steps, seq):
    entries, ms = [], first
    for step in steps:
        ms += step
        entries.append((ms, seq, b"x", 14))
    packed = pack(columns_of(entries))
    assert packed.columns() == columns_of(entries)


@pytest.mark.parametrize("step", [0, 1, 7, (1 << 32) - 1])
def test_ids_in_equal_steps_take_next_to_no_room(step):
    def size(number: int) -> int:
        return pack(columns_of([(10**12 + step * at, 0, b"an entry", 14) for at in range(number)])).memory

    assert size(128) - size(2) < 16


def test_lengths_above_64_kib_come_out():
    entries = [(1, at, b"x" * size, 14) for at, size in enumerate([1, 70_000, 3, 200_000])]
    assert pack(columns_of(entries)).columns() == columns_of(entries)


@pytest.mark.parametrize(
    ("seqs", "kind"),
    [
        ([0, 0, 0], "B"), ([255, 255], "B"), ([256, 256], "H"), ([254, 255], "B"), ([254, 256], "H"),
        ([3, 7, 255], "B"), ([0, 300, 301, 2], "H"), ([65_535, 0], "H"), ([65_535, 65_536], "I"),
        ([65_536, 0], "I"), ([0, 5, (1 << 32) - 1], "I"), ([0, 1 << 32, 5], "Q"), ([0, 1 << 32], "Q"),
        ([MAX_U64], "Q"),
    ],
)  # fmt: skip
def test_sequences_come_out_in_as_few_bytes_as_they_need(seqs, kind):
    columns = columns_of([(at, seq, b"x", 14) for at, seq in enumerate(seqs)])
    for seq in (pack(columns).columns().seq, narrowed(columns.seq)):
        assert (seq.typecode, seq.tolist()) == (kind, seqs)


def test_what_was_packed_before_comes_out_the_same_when_it_is_packed_again():
    columns = columns_of([(at, at * at, b"x", 14) for at in range(300)])
    once = pack(columns).columns()
    assert pack(once).columns() == once == columns
