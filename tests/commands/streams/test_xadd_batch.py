"""Runs of XADD: together they do what they do one by one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_server import make_client, run
from support.invariants import check_invariants

from rillet.commands.streams import xadd_batch as module
from rillet.commands.streams.xadd_batch import SHORTEST_RUN, _ascending, xadd_batch
from rillet.storage.streams.ids import MAX_ID, MAX_U64

STEPS = st.sampled_from([(0, 1), (1, 0), (7, 3), (0, 0), (-1, 0)])
ODD_WORDS = st.sampled_from(
    [
        b"5", b"1-2-3", b"-", b"01-1", b"1-01", b"+1-1", b"1-1 ", b"9" * 25 + b"-1", b"*", b"1-", b"-1", b"0-9",
        b"9\n-9", b"1-0\n2-0",
    ]
)  # fmt: skip
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
    return [args for args in batch if args[:1] == [b"XADD"] and len(args) >= 5]


def prepared(last_id):
    client = make_client()
    client.server.keyspace.notify_mask = 0
    client.server.propagation.active = False
    client.server.keyspace.now = 1_700_000_000_000
    run(client, "XADD", "s", "0-1", "f", "v")
    client.db.entries[b"s"].last_id = last_id
    return client


def adds(number):
    return [[b"XADD", b"s", b"%d-0" % number, b"f", b"100%%", b"g", b"v"] for number in range(1, number + 1)]


def entries(client):
    return client.db.entries[b"s"].range(0, MAX_ID, None)


@given(batches(), st.sampled_from([1, 95 << 64, 95 << 64 | 7, 95 << 64 | 8, MAX_U64 << 64]))
@example(adds(40), 1)
def test_a_run_adds_what_its_commands_add(batch, last_id):
    together, alone = prepared(last_id), prepared(last_id)
    replies = []
    while len(replies) < len(batch):
        replies += xadd_batch(together, batch, len(replies)) or [run(together, *batch[len(replies)])]
    assert replies == [run(alone, *args) for args in batch]
    assert entries(together) == entries(alone)
    check_invariants(together.db.entries[b"s"])


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


def test_entries_with_the_same_names_are_encoded_together(monkeypatch):
    client = prepared(0)
    monkeypatch.setattr(module, "encode_fields", None)
    assert len(xadd_batch(client, adds(40), 3)) == 37


@pytest.mark.parametrize(
    "odd", [[b"1-0", b"h", b"v", b"g", b"v"], [b"1-0", b"f", b"v"], [b"1-0", b"f", b"x" * 5000, b"g", b"v"]]
)
def test_a_run_goes_on_where_names_change_and_ends_where_an_entry_is_large(odd):
    batch = adds(40)
    batch[20][2:] = [batch[20][2], *odd[1:]]
    is_large = max(map(len, odd)) == 5000
    assert len(xadd_batch(prepared(0), batch, 0)) == (20 if is_large else 40)


@pytest.mark.parametrize(
    "last",
    [
        [b"39"], [b"39-"], [b"-39"], [b"39-0-0"], [b"039-0"], [b"39-00"], [b"39-01"], [b"38-0"], [b"+39-0"],
        [b"39-0\n40-0"], [b"39", b"40-41-0"], [b"9" * 20 + b"-0"],
    ],
)  # fmt: skip
def test_a_run_ends_before_an_id_that_is_refused_or_not_canonical(last):
    ids = [*[b"%d-0" % number for number in range(1, 39)], *last]
    assert _ascending(ids, 0) == (list(range(1, 39)), [0] * 38)
    batch = [[b"XADD", b"s", word, b"f", b"v"] for word in ids]
    assert len(xadd_batch(prepared(0), batch, 0)) == 38


def test_the_last_id_does_not_come_again():
    assert xadd_batch(prepared((1 << 64) - 1), adds(39), 0) is not None
    assert xadd_batch(prepared(1 << 64), adds(39), 0) is None


@pytest.mark.parametrize("at", [15, 16, 17, 47, 48, 49])
@pytest.mark.parametrize("other", [[b"XADD", b"t"], [b"xadd", b"s"]])
def test_a_run_ends_where_another_key_or_spelling_begins(at, other):
    batch = adds(80)
    for args in batch[at:]:
        args[:2] = other
    assert len(xadd_batch(prepared(0), batch, 0)) == at


def test_a_pipeline_that_is_sent_again_is_not_walked_to_its_end_for_each_command(monkeypatch):
    seen = []

    def counted(words, last_id):
        seen.extend(words)
        return _ascending(words, last_id)

    monkeypatch.setattr(module, "_ascending", counted)
    client, batch = prepared(1000 << 64), adds(400)
    assert [xadd_batch(client, batch, at) for at in range(400)] == [None] * 400
    assert len(seen) <= 16 * 400
    del seen[:]
    client = prepared(0)
    for args in batch[::5]:
        args[2] = b"0-1"
    at = 0
    while at < 400:
        at += len(xadd_batch(client, batch, at) or [None])
    assert len(seen) <= 16 * 400


def test_no_fields_are_encoded_where_the_first_command_trims_far(monkeypatch):
    client = prepared(0)
    monkeypatch.setattr(module, "trims_far", lambda *_: True)
    monkeypatch.setattr(module, "encode_fields", None)
    batch = [[b"XADD", b"s", b"MAXLEN", b"~", b"1", b"*", b"f", b"v"] for _ in range(40)]
    assert xadd_batch(client, batch, 0) is None
