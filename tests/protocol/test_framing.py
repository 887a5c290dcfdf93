"""Framing: where values end, in bytes that are cut anywhere; built from a tree, so the ends are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.framing import Framer, FramingError

TEXT = st.text("ab:$*>;.?-1", max_size=12).map(str.encode)
BLOB = st.binary(max_size=40)


def bulk(kind: bytes, body: bytes) -> bytes:
    return b"%b%d\r\n%b\r\n" % (kind, len(body), body)


def streamed_text(parts: list[bytes]) -> bytes:
    return b"$?\r\n" + b"".join(b";%d\r\n%b\r\n" % (len(part), part) for part in parts if part) + b";0\r\n"


def aggregate(kind: bytes, values: list[bytes], *, streamed: bool) -> bytes:
    if kind == b"%" and len(values) % 2:
        values = values[1:]
    number = len(values) // 2 if kind == b"%" else len(values)
    if streamed:
        return kind + b"?\r\n" + b"".join(values) + b".\r\n"
    return b"%b%d\r\n" % (kind, number) + b"".join(values)


def with_attribute(values: list[bytes], value: bytes) -> bytes:
    values = values[len(values) % 2 :]
    return b"|%d\r\n" % (len(values) // 2) + b"".join(values) + value


LEAVES = st.one_of(
    st.builds(
        lambda kind, text: kind + text + b"\r\n", st.sampled_from([b"+", b"-", b":", b",", b"("]), TEXT
    ),
    st.sampled_from(
        [b"_\r\n", b"#t\r\n", b"#f\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"%0\r\n", b"$0\r\n\r\n"]
    ),
    st.builds(bulk, st.sampled_from([b"$", b"!", b"="]), BLOB),
    st.builds(streamed_text, st.lists(BLOB, max_size=3)),
)
# A push stands anywhere: inside EXEC's reply, too.
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            aggregate,
            st.sampled_from([b"*", b"~", b"%", b">"]),
            st.lists(inner, max_size=4),
            streamed=st.booleans(),
        ),
        st.builds(with_attribute, st.lists(inner, max_size=4), inner),
    ),
    max_leaves=12,
)


def kind_of(value: bytes) -> int:
    """The type of a value, behind its attributes."""
    framer = Framer()
    assert framer.next(value, 0) == len(value)
    return framer.kind


@given(st.lists(VALUES, max_size=5), st.data())
def test_the_ends_of_values_are_found_wherever_the_bytes_are_cut(values, data):
    every = b"".join(values)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(every)), max_size=12)))
    framer, ends = Framer(), []
    for begin, stop in zip([0, *cuts], [*cuts, len(every)], strict=True):
        at = 0
        while (at := framer.next(every[begin:stop], at)) >= 0:
            ends.append(begin + at)
    assert ends == [sum(map(len, values[: number + 1])) for number in range(len(values))]
    assert framer.is_between
    counting = Framer()
    pieces = [every[begin:stop] for begin, stop in zip([0, *cuts], [*cuts, len(every)], strict=True)]
    assert sum(map(counting.count, pieces)) == sum(kind_of(value) != ord(">") for value in values)
    assert counting.is_between


@given(VALUES)
def test_a_value_that_comes_byte_by_byte_ends_with_its_last_byte(value):
    framer = Framer()
    assert [framer.next(value[at : at + 1], 0) for at in range(len(value))] == [-1] * (len(value) - 1) + [1]
    assert framer.kind == kind_of(value)


@given(st.binary(max_size=60), st.integers(1, 7))
def test_any_bytes_are_framed_or_refused(data, size):
    framer = Framer()
    try:
        for begin in range(0, len(data), size):
            at, piece = 0, data[begin : begin + size]
            while (at := framer.next(piece, at)) >= 0:
                assert 0 < at <= len(piece)
    except FramingError:
        pass


@pytest.mark.parametrize(
    "data", [b"$x\r\n", b"*--1\r\n", b"X1\r\n", b"\r\n", b".\r\n", b";1\r\n", b"|-1\r\n", b"$" + b"1" * 99]
)
def test_what_is_no_resp_is_refused(data):
    with pytest.raises(FramingError):
        Framer().next(data, 0)


def test_a_long_value_is_not_held():
    framer = Framer()
    framer.next(b"$536870912\r\n", 0)
    for _ in range(512):
        framer.next(b"x" * (1 << 20), 0)
    assert not framer.is_between
    assert framer._line == b""
    assert framer.next(b"\r\n+OK\r\n", 0) == 2
    framer.next(b"+" + b"y" * (1 << 20), 0)
    assert len(framer._line) == 2


def test_the_kind_of_a_value_is_that_behind_its_attribute():
    assert kind_of(b"|1\r\n+a\r\n+b\r\n>1\r\n+c\r\n") == ord(">")
    assert kind_of(b"|0\r\n|1\r\n+a\r\n*1\r\n:1\r\n$1\r\nx\r\n") == ord("$")
