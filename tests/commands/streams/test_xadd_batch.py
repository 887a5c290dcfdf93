"""Runs of XADD with given IDs: by columns and by rows they are the same entries."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_server import make_client, run

from rillet.commands.streams.xadd_batch import SHORTEST_RUN, _given_columns, _given_rows, xadd_batch
from rillet.storage.streams.ids import MAX_U64
from rillet.storage.streams.stream import Stream

STEPS = st.sampled_from([(0, 1), (1, 0), (7, 3), (0, 0), (-1, 0)])
ODD_WORDS = st.sampled_from(
    [
        b"5",
        b"1-2-3",
        b"-",
        b"01-1",
        b"1-01",
        b"+1-1",
        b"1-1 ",
        b"9" * 25 + b"-1",
        b"*",
        b"1-",
        b"-1",
        b"0-9",
        b"9\n-9",
        b"1-0\n2-0",
    ]
)
VALUES = st.sampled_from([b"", b"v", b"100%", b"\r\n", b"x" * 1030, b"x" * 5000])


@st.composite
def batches(draw):
    """XADDs of one key, and mostly one of them that differs somehow."""
    step = draw(STEPS.filter(lambda step: step > (0, 0)) | STEPS)
    names = draw(st.lists(st.sampled_from([b"f", b"%d", b"name"]), min_size=1, max_size=2))
    value = draw(VALUES)
    first = draw(st.sampled_from([95, 9_999_995]))
    number = draw(st.sampled_from([SHORTEST_RUN, SHORTEST_RUN + 3, 6 * SHORTEST_RUN]))
    batch = []
    for at in range(number):
        word = b"%d-%d" % (first + at * step[0], 8 + at * step[1])
        batch.append([b"XADD", b"s", word, *[word for name in names for word in (name, value)]])
    for _ in range(draw(st.integers(0, 2))):
        args = batch[draw(st.integers(0, number - 1))]
        place = draw(st.integers(0, len(args)))
        args[place : place + 1] = draw(st.lists(ODD_WORDS | VALUES, max_size=2))
    return [args if args[:1] else [b"PING"] for args in batch]


@given(
    batches(), st.sampled_from([0, 1, 95 << 64, 95 << 64 | 7, 95 << 64 | 8, MAX_U64 << 64]), st.integers(0, 3)
)
@example([[b"XADD", b"s", b"%d-0" % n, b"f", b"v"] for n in range(1, 40)], 1, 0)
def test_what_goes_by_columns_is_what_goes_by_rows(batch, last_id, at):
    if len(batch[at]) < 5 or any(len(args) < 3 for args in batch):
        return
    stream = Stream()
    stream.last_id = last_id
    columns, rows = _given_columns(stream, batch, at), _given_rows(stream, batch, at)
    if columns is not None:
        assert rows is not None
        assert rows.encoded.fields() == rows.fields
        number = len(columns.ms)  # rows may go on where the number of words changes
        assert columns[:3] == tuple(each[:number] for each in rows[:3])
        assert columns.encoded == tuple(each[:number] for each in rows.encoded)
        assert columns.encoded.fields() == rows.fields[:number]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_no_fields_are_encoded_before_the_shortest_run_is_seen(at, monkeypatch):
    client = make_client()
    client.server.keyspace.notify_mask = 0
    client.server.propagation.active = False
    run(client, "XADD", "s", "*", "f", "v")
    adds = [[b"XADD", b"s", b"*", b"f", b"v"] for _ in range(4)]
    assert len(xadd_batch(client, adds, 0)) == 4
    adds[at][2:2] = [b"NOMKSTREAM"]
    monkeypatch.setattr("rillet.commands.streams.xadd_batch.encode_fields", None)
    assert xadd_batch(client, adds, 0) is None


def test_the_usual_run_goes_by_columns():
    batch = [[b"XADD", b"s", b"%d-0" % number, b"f", b"100%%", b"g", b"v"] for number in range(1, 40)]
    columns = _given_columns(Stream(), batch, 3)
    assert columns is not None
    assert len(columns.ms) == 36
    assert columns.encoded.fields()[0] == b"*4\r\n$1\r\nf\r\n$5\r\n100%%\r\n$1\r\ng\r\n$1\r\nv\r\n"
    assert columns[:4] == _given_rows(Stream(), batch, 3)[:4]
    batch[20][3] = b"h"
    other = _given_columns(Stream(), batch, 3)
    assert other is not None
    assert other[:4] == _given_rows(Stream(), batch, 3)[:4]


@pytest.mark.parametrize(
    "last",
    [
        [b"39"],
        [b"39-"],
        [b"-39"],
        [b"39-0-0"],
        [b"039-0"],
        [b"39-00"],
        [b"39-01"],
        [b"38-0"],
        [b"+39-0"],
        [b"39-0\n40-0"],
        [b"39", b"40-41-0"],
        [b"9" * 20 + b"-0"],
    ],
)
def test_a_run_with_another_word_does_not_go_by_columns(last):
    ids = [*[b"%d-0" % number for number in range(1, 39)], *last]
    batch = [[b"XADD", b"s", word, b"f", b"v"] for word in ids]
    assert _given_columns(Stream(), batch[: -len(last)], 0) is not None
    assert _given_columns(Stream(), batch, 0) is None


def test_the_last_id_does_not_come_again():
    stream = Stream()
    batch = [[b"XADD", b"s", b"%d-0" % number, b"f", b"v"] for number in range(1, 40)]
    stream.last_id = (1 << 64) - 1
    assert _given_columns(stream, batch, 0) is not None
    stream.last_id = 1 << 64
    assert _given_columns(stream, batch, 0) is None
