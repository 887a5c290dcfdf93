"""Bits in pieces beside bits at once, and what they hold meanwhile; scripts and random commands have them beside Redis."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run

from rillet.commands.bitmaps import bits as bitmaps
from rillet.commands.runtime.step_sizes import ServerTuning

OPERATIONS = "AND OR XOR NOT DIFF DIFF1 ANDOR ONE".split()


def with_string(value, **tuning):
    client = make_client(server=FakeServer())
    client.server.tuning = ServerTuning(**tuning)
    run(client, "SET", "k", value)
    return client


@given(
    st.lists(st.binary(max_size=9), min_size=2, max_size=4),
    st.sampled_from(OPERATIONS),
    st.integers(-80, 80),
    st.integers(-80, 80),
    st.sampled_from(["BIT", "BYTE"]),
)
def test_what_is_done_in_pieces_is_what_is_done_at_once(values, operation, start, end, unit):
    seen = []
    for tuning in ({}, {"bit_bytes": 2}):
        client = with_string(values[0], **tuning)
        for number, value in enumerate(values):
            run(client, "SET", f"k{number}", value)
        names = [f"k{number}" for number in range(1 if operation == "NOT" else len(values))]
        seen.append(
            [
                *(run(client, "BITOP", operation, "d", *names), run(client, "GET", "d")),
                run(client, "BITCOUNT", "k", start, end, unit),
                *(run(client, "BITPOS", "k", bit, start, end, unit) for bit in (0, 1)),
            ]
        )
    assert seen[0] == seen[1]


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
