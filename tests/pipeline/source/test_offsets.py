"""pipeline/source/offsets.py: what a checkpoint holds is read back, or refused with the reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.redis import ids
from rillet.pipeline.source import offsets
from rillet.pipeline.source.offsets import OffsetError, Position, StreamSnapshot


def test_offsets_survive_the_checkpoint():
    positions = {
        "b": Position(ids.MAX_ID, 7, 1, 2, StreamSnapshot(4, ids.MAX_ID, 9, 2)),
        "a": Position(0, snapshot=StreamSnapshot(None, None, None, None)),
        "\udcff": Position(5, 5),
    }
    tree = json.loads(json.dumps(offsets.dump(positions)))
    assert offsets.load(tree) == positions
    assert json.dumps(offsets.dump(offsets.load(tree))) == json.dumps(offsets.dump(positions))


# Keys are bytes, and names have what is no UTF-8 as lone surrogates; others may come from options.
names = (
    st.text() | st.text(st.characters()) | st.binary().map(lambda key: key.decode(errors="surrogateescape"))
)
stream_ids = st.integers(0, ids.MAX_ID) | st.integers(0, 3) | st.integers(0, 5).map(lambda ms: ms << 64)
counts = st.integers(0, 3) | st.integers(0, 2**64 - 1)
# Few values, so that what is left out when it is equal often is.
snapshots = st.builds(
    StreamSnapshot, stream_ids | st.none(), stream_ids | st.none(), counts | st.none(), counts | st.none()
)
positions = st.builds(Position, stream_ids, counts | st.none(), counts, counts, snapshots | st.none())


@given(st.dictionaries(names, positions))
def test_any_position_in_any_stream_survives_the_checkpoint(found):
    text = json.dumps(offsets.dump(found))
    assert offsets.load(json.loads(text)) == found
    assert json.dumps(offsets.dump(offsets.load(json.loads(text)))) == text


@given(positions, positions)
def test_positions_that_differ_are_written_differently(one, other):
    assert (offsets.dump({"s": one}) == offsets.dump({"s": other})) == (one == other)
    assert (json.dumps(offsets.dump({"s": one})) == json.dumps(offsets.dump({"s": other}))) == (one == other)


def row(at):
    return offsets.dump({"orders": at})["streams"]["orders"]


def test_the_json_is_the_documented_one():
    last = ids.parse("1526919030474-55")
    assert offsets.dump({"orders": Position(last, 1200)}) == {
        "v": 2,
        "db": 0,
        "streams": {"orders": ["1526919030474-55", 1200]},
    }
    snapshot = StreamSnapshot(ids.parse("1526919030474-2"), ids.parse("1526919030480-0"), 1300, 200)
    whole = ["1526919030474-55", 1200, "1526919030474-2", 1526919030480, 1300, 200]
    assert row(Position(last, 1200, snapshot=snapshot)) == whole
    assert row(Position(last, 1200, 3, 0, snapshot)) == [*whole, 3]
    assert row(Position(last, 1200, 0, 7, snapshot)) == [*whole, 0, 7]
    assert row(Position(5 << 64, 9, snapshot=StreamSnapshot(3 << 64, 5 << 64, 9, 0))) == [5, 9, 3]
    assert row(Position(0, 0, snapshot=StreamSnapshot(None, None, 0, 0))) == ["0-0", 0, None, None]
    assert row(Position(0, None, 1)) == ["0-0", None, False, "0-0", None, 0, 1]


def test_a_backlog_is_what_was_seen_behind_a_position():
    snapshot = StreamSnapshot(ids.parse("1-0"), ids.parse("9-0"), 9, 0)
    assert Position(ids.parse("4-0"), 4, snapshot=snapshot).backlog == 5
    assert Position(ids.parse("4-0"), None, snapshot=snapshot).backlog is None
    assert Position(ids.parse("9-0"), None, snapshot=snapshot).backlog == 0
    assert Position(ids.parse("4-0"), 4).backlog == 0


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"v": 3, "streams": {}},
            r"^\[REDIS_STREAMS.BAD_OFFSET\] .*version 3; this Rillet reads version 2\. Go on",
        ),
        ({"v": 1, "streams": {}}, "version 1; this Rillet reads version 2"),
        ({}, "is of another source"),
        ({"v": 2, "group": "g"}, "another mode"),
    ],
)
def test_other_offsets_are_refused(tree, message):
    with pytest.raises(OffsetError, match=message):
        offsets.load(tree)
