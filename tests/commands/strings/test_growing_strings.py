"""Strings that are changed in place: against plain bytes, and without a copy where nobody else holds them."""

import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.keys import lifecycle  # noqa: F401
from rillet.commands.strings import get_set, ranges, shared  # noqa: F401

KEYS = st.sampled_from([b"a", b"b"])
PIECES = st.binary(max_size=12)
PLACES = st.integers(0, 90)
LARGE = 16 << 20


class Strings(RuleBasedStateMachine):
    """Commands on two strings, with values that others hold meanwhile: a snapshot, a reply, a copy of the key.

    Strings of any size are written in place here.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limit, shared.LARGE = shared.LARGE, 0
        ranges.LARGE = 0
        self.client = make_client(server=FakeServer())
        self.model: dict[bytes, bytes] = {}
        self.kept: list[tuple[bytes, bytes]] = []

    def teardown(self) -> None:
        shared.LARGE = ranges.LARGE = self.limit

    @rule(key=KEYS, value=PIECES)
    def set_key(self, key, value):
        run(self.client, "SET", key, bytes(bytearray(value)))
        self.model[key] = value

    @rule(key=KEYS, piece=PIECES)
    def append(self, key, piece):
        self.model[key] = self.model.get(key, b"") + piece
        assert reply(self.client, "APPEND", key, piece) == len(self.model[key])

    @rule(key=KEYS, at=PLACES, piece=PIECES)
    def set_range(self, key, at, piece):
        if piece:
            old = self.model.get(key, b"").ljust(at, b"\0")
            self.model[key] = old[:at] + piece + old[at + len(piece) :]
        assert reply(self.client, "SETRANGE", key, at, piece) == len(self.model.get(key, b""))

    @rule(key=KEYS, at=st.integers(0, 700), bit=st.integers(0, 1))
    def set_bit(self, key, at, bit):
        old = bytearray(self.model.get(key, b"").ljust(at // 8 + 1, b"\0"))
        mask = 0x80 >> at % 8
        before = int(old[at // 8] & mask != 0)
        old[at // 8] = old[at // 8] & ~mask | mask * bit
        self.model[key] = bytes(old)
        assert reply(self.client, "SETBIT", key, at, bit) == before

    @rule(key=KEYS, places=st.lists(st.tuples(PLACES, st.integers(0, 255)), min_size=1, max_size=3))
    def set_fields(self, key, places):
        words, before = [], []
        data = bytearray(self.model.get(key, b"").ljust(max(at for at, _ in places) + 1, b"\0"))
        for at, number in places:
            words += ["SET", "u8", at * 8, number]
            before.append(data[at])
            data[at] = number
        self.model[key] = bytes(data) if bytes(data) != self.model.get(key) else self.model[key]
        assert reply(self.client, "BITFIELD", key, *words) == before

    @rule(key=KEYS, at=PLACES)
    def a_field_that_does_not_fit_changes_nothing(self, key, at):
        assert reply(self.client, "BITFIELD", key, "OVERFLOW", "FAIL", "SET", "u8", at * 8, 256) == [None]

    @rule(source=KEYS, other=KEYS)
    def copy(self, source, other):
        if source in self.model and source != other:
            run(self.client, "COPY", source, other, "REPLACE")
            self.model[other] = self.model[source]

    @rule(key=KEYS)
    def delete(self, key):
        run(self.client, "DEL", key)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def hold(self, key):
        """As a snapshot, a reply on its way or a transaction does."""
        value = self.client.db.entries.get(key)
        if value is not None:
            self.kept.append((value, bytes(bytearray(value))))

    @rule()
    def let_go(self):
        self.kept.clear()

    @invariant()
    def strings_are_as_in_the_model(self):
        for key in (b"a", b"b"):
            assert self.client.db.entries.get(key) == self.model.get(key)

    @invariant()
    def what_is_held_never_changes(self):
        for value, before in self.kept:
            assert value == before


TestStrings = Strings.TestCase


@pytest.fixture
def client():
    found = make_client(server=FakeServer())
    run(found, "SETRANGE", "k", LARGE - 1, "x")
    return found


CHANGES = [
    ("APPEND", "k", "x"),
    ("SETRANGE", "k", LARGE // 2, "x"),
    ("SETRANGE", "k", LARGE + 1000, "x"),
    ("SETBIT", "k", LARGE * 4, 1),
    ("SETBIT", "k", LARGE * 8 + 8000, 1),
    ("BITFIELD", "k", "SET", "u8", LARGE * 4, 7, "INCRBY", "i32", 3, 9),
    ("BITFIELD", "k", "SET", "u8", LARGE * 8 + 8000, 7),
    ("BITFIELD_RO", "k", "GET", "u8", LARGE * 4),
]


@pytest.mark.parametrize("words", CHANGES)
def test_a_small_change_copies_no_large_string(words):
    tracemalloc.start()
    try:
        client = make_client(server=FakeServer())
        run(client, "SETRANGE", "k", LARGE - 1, "x")
        run(client, *words)
        tracemalloc.reset_peak()
        run(client, *words)
        assert tracemalloc.get_traced_memory()[1] < LARGE * 5 // 4  # the string, and an eighth to grow into
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("words", CHANGES[:-1])
def test_who_holds_a_large_string_keeps_it(client, words):
    held = client.db.entries[b"k"]
    run(client, *words)
    assert held == b"x".rjust(LARGE, b"\0")
    assert client.db.entries[b"k"] != held


def test_a_change_that_fails_loses_nothing(client):
    def fail(data):
        data.seek(3)
        data.write(b"y")
        raise MemoryError

    with pytest.raises(MemoryError):
        shared.edited(client, b"k", fail)
    assert client.db.entries[b"k"] == b"\0\0\0y".ljust(LARGE - 1, b"\0") + b"x"


@pytest.mark.parametrize(
    "words",
    [
        ("SETRANGE", "k", 5, "x"),
        ("SETBIT", "k", 9, 1),
        ("APPEND", "k", "x"),
        ("BITFIELD", "k", "SET", "u8", 8, 7),
    ],
)
def test_a_string_that_was_hashed_before_it_changed_has_the_hash_of_its_bytes(words):
    client = make_client(server=FakeServer())
    run(client, "SET", "k", bytes(bytearray(20_000)))
    hash(client.db.entries[b"k"])
    run(client, *words)
    value = client.db.entries[b"k"]
    assert hash(value) == hash(bytes(bytearray(value)))
