"""How entries are measured for the nodes; that they are measured right is for ``test_nodes_against_redis``."""

import pytest
from support.invariants import check_invariants

from rillet.commands.streams.xadd import encode_fields
from rillet.storage import listpack_sizes as storage_listpack_sizes
from rillet.storage.streams import macro_nodes as nodes
from rillet.storage.streams.stream import Stream

FIELDS = encode_fields([b"f", b"v"])


class Word(bytes):
    """Bytes that cannot be hashed."""

    def __hash__(self) -> int:
        raise AssertionError("this reads all of them")


@pytest.mark.parametrize(("size", "in_columns"), [(10, True), (900, True), (3000, False), (10_000, False)])
def test_only_entries_that_are_not_long_are_measured_in_columns(monkeypatch, size, in_columns):
    measured = []
    measure = nodes._measure_columns
    monkeypatch.setattr(nodes, "_measure_columns", lambda *args: measured.append(args) or measure(*args))
    stream = Stream()
    for ms in range(1, 6):
        stream.append(ms << 64, encode_fields([b"field", b"v" * size]))
    stream.macro_nodes.account_all()
    assert stream.macro_nodes.accounted == 5 << 64
    assert bool(measured) is in_columns


@pytest.mark.parametrize("word", [b"v" * 10_000, b"1" * 12, b"-" * 100])
def test_a_long_word_is_measured_without_looking_it_up(word):
    assert nodes._Sizes().of(Word(word)) == storage_listpack_sizes.element_size(word)


def test_an_id_that_was_deleted_and_comes_again_is_accounted_for_again():
    """Before 7.2 XSETID may go back below deleted IDs."""
    stream = Stream()
    for ms in range(1, 11):
        stream.append(ms << 64, FIELDS)
    stream.macro_nodes.account_all()
    for ms in range(6, 11):
        assert stream.delete(ms << 64)
    stream.set_last_id(5 << 64)
    stream.append(6 << 64, FIELDS)
    for ms in range(1, 7):
        assert stream.delete(ms << 64)
        check_invariants(stream)
    assert not stream.macro_nodes.count
