"""Bits against a model; the operations that only Redis 8.2 has."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.bitmaps import bitfield as bitfields  # noqa: F401 - they declare commands
from rillet.commands.bitmaps import bits as bitmaps
from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.commands.strings import get_set as strings  # noqa: F401 - they declare commands

BYTES = st.binary(max_size=5)
OPERATIONS = {
    "AND": all,
    "OR": any,
    "XOR": lambda bits: sum(bits) % 2,
    "DIFF": lambda bits: bits[0] and not any(bits[1:]),
    "DIFF1": lambda bits: not bits[0] and any(bits[1:]),
    "ANDOR": lambda bits: bits[0] and any(bits[1:]),
    "ONE": lambda bits: sum(bits) == 1,
}


def bits_of(value):
    return [byte >> (7 - place) & 1 for byte in value for place in range(8)]


AT_ONCE, IN_PIECES = ServerTuning(), ServerTuning(bit_bytes=2)
TUNINGS = pytest.mark.parametrize("tuning", [AT_ONCE, IN_PIECES], ids=["at once", "in pieces"])


def fresh(tuning):
    client = make_client(server=FakeServer())
    client.server.tuning = tuning
    return client


def with_string(value, tuning=AT_ONCE):
    client = fresh(tuning)
    run(client, "SET", "k", value)
    client.server.propagation.take()
    return client


@pytest.mark.parametrize("operation", OPERATIONS)
@TUNINGS
@given(st.lists(BYTES, min_size=2, max_size=4))
def test_bitop_combines_bit_by_bit(operation, tuning, values):
    client = fresh(tuning)
    names = [f"k{number}" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        run(client, "SET", name, value)
    length = max(map(len, values))
    assert reply(client, "BITOP", operation, "d", *names) == length
    columns = zip(*[bits_of(value.ljust(length, b"\0")) for value in values], strict=True)
    assert bits_of(reply(client, "GET", "d") or b"") == [int(OPERATIONS[operation](bits)) for bits in columns]


@given(st.binary(max_size=70_000))
def test_bitop_not_turns_each_bit(value):
    client = with_string(value)
    assert reply(client, "BITOP", "NOT", "d", "k") == len(value)
    assert (reply(client, "GET", "d") or b"") == bytes(byte ^ 0xFF for byte in value)


@TUNINGS
@given(BYTES, st.integers(-45, 45), st.integers(-45, 45), st.booleans())
def test_counting_and_finding_see_the_same_bits(tuning, value, start, end, by_bit):
    client = with_string(value, tuning)
    bits, size = bits_of(value), 1 if by_bit else 8
    length = len(bits) // size
    first = max(start + length, 0) if start < 0 else start
    last = min(max(end + length, 0) if end < 0 else end, length - 1)
    chosen = range(first * size, (last + 1) * size)
    empty = start < 0 and end < 0 and start > end
    words = [start, end, "BIT" if by_bit else "BYTE"]
    assert reply(client, "BITCOUNT", "k", *words) == (0 if empty else sum(bits[at] for at in chosen))
    for bit in (0, 1):
        wanted = next((at for at in chosen if bits[at] == bit), -1)
        assert reply(client, "BITPOS", "k", bit, *words) == wanted


@pytest.mark.parametrize(
    "words",
    [
        ("BITCOUNT", "k"),
        ("BITCOUNT", "k", 1, -2, "BYTE"),
        ("BITCOUNT", "k", 1, -2, "BIT"),
        ("BITPOS", "k", 1),
        ("BITPOS", "k", 1, 3, -2, "BIT"),
    ],
)
def test_counting_and_finding_copy_no_long_string(words):
    client = with_string(bytes(1 << 24))
    tracemalloc.start()
    try:
        run(client, *words)
        assert tracemalloc.get_traced_memory()[1] < 1 << 19
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("operation", [b"AND", b"NOT", b"ONE", b"DIFF"])
def test_bitop_holds_its_result_only_once(operation):
    values = [bytes(16 << 20)] * (1 if operation == b"NOT" else 3)
    tracemalloc.start()
    try:
        result = bitmaps._result(operation, values, 16 << 20, ServerTuning().bit_bytes)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert len(result) == 16 << 20


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=20))
def test_setting_bits_says_what_was_there(changes):
    client, model = make_client(server=FakeServer()), {}
    for offset, bit in changes:
        assert reply(client, "SETBIT", "k", offset, bit) == model.get(offset, 0)
        model[offset] = bit
        assert reply(client, "GETBIT", "k", offset) == bit
    value = reply(client, "GET", "k") or b""
    assert len(value) == (max(model) // 8 + 1 if model else 0)
    assert {at for at, bit in enumerate(bits_of(value)) if bit} == {at for at, bit in model.items() if bit}


@given(
    BYTES,
    st.booleans(),
    st.integers(1, 63),
    st.integers(0, 50),
    st.sampled_from(["SET", "INCRBY"]),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from(["WRAP", "SAT", "FAIL"]),
)
def test_fields_hold_what_fits(value, signed, width, offset, verb, amount, overflow):
    client = with_string(value)
    kind = f"{'i' if signed else 'u'}{width}"
    low = -(1 << (width - 1)) if signed else 0
    high = low + (1 << width) - 1
    old = reply(client, "BITFIELD_RO", "k", "GET", kind, offset)[0]
    assert low <= old <= high
    wanted = (amount if signed or amount >= 0 else amount + (1 << 64)) if verb == "SET" else old + amount
    answer = reply(client, "BITFIELD", "k", "OVERFLOW", overflow, verb, kind, offset, amount)[0]
    new = reply(client, "BITFIELD_RO", "k", "GET", kind, offset)[0]
    if low <= wanted <= high:
        assert new == wanted
    elif overflow == "FAIL":
        assert (answer, new) == (None, old)
        return
    elif overflow == "SAT":
        assert new == (high if wanted > high else low)
    else:
        assert (new - wanted) % (1 << width) == 0
    assert answer == (old if verb == "SET" else new)
    outside = [bit for at, bit in enumerate(bits_of(value)) if not offset <= at < offset + width]
    after = bits_of(reply(client, "GET", "k"))
    kept = [bit for at, bit in enumerate(after[: len(value) * 8]) if not offset <= at < offset + width]
    assert kept == outside
