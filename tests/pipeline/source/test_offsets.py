"""pipeline/source/offsets.py: what a checkpoint holds is read back, or refused with the reason."""

import json
import random
from dataclasses import replace
from itertools import cycle
from math import log2
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.pipeline.group.offset import GroupOffset
from rillet.pipeline.redis import ids
from rillet.pipeline.source import offsets
from rillet.pipeline.source.offsets import OffsetError
from rillet.pipeline.source.positions import ENDED, Position, StreamSnapshot

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
@example({"b": Position(ids.MAX_ID, 7, 1, 2, StreamSnapshot(4, ids.MAX_ID, 9, 2)), "\udcff": Position(5, 5)})
def test_any_position_in_any_stream_survives_the_checkpoint(found):
    text = json.dumps(offsets.dump(found))
    assert offsets.load(json.loads(text)) == found
    assert json.dumps(offsets.dump(offsets.load(json.loads(text)))) == text


def as_packed(found):
    """The packed text leaves out the first entries that were seen, but for the mark of a stream that is gone."""
    return {
        name: replace(at, snapshot=replace(at.snapshot, first=None))
        if at.snapshot and at.snapshot.first
        else at
        for name, at in found.items()
    }


@given(st.lists(positions, max_size=3), st.lists(names, unique=True, max_size=5))
def test_many_streams_are_packed_and_come_back(some, odd):
    found = {f"s{number:03}": Position(number << 64, number) for number in range(101)}
    found |= dict(zip(odd, cycle(some), strict=False)) if some else {}
    tree = offsets.dump(found)
    assert isinstance(tree["streams"], str)
    assert offsets.load(json.loads(json.dumps(tree))) == as_packed(found)
    assert offsets.dump(offsets.load(tree)) == tree


HOUR = 3_600_000
NOW = 1_764_433_200_000


def many(span, chance, *, most=1000, length=0, newer=0):
    """10,000 streams with random ids within milliseconds, and what was just read of twenty of them."""
    found = {}
    for number in range(10_000):
        last = NOW - chance.randrange(span) << 64
        added = chance.randrange(length, most) + 1
        removed = max(added - length - chance.randrange(100), 0) if length else 0
        newest, more = (NOW - chance.randrange(newer) << 64, chance.randrange(1000)) if newer else (last, 0)
        snapshot = StreamSnapshot(last - (chance.randrange(span) << 64), newest, added + more, removed)
        found[f"orders:customer-{number:06}"] = Position(last, added, snapshot=snapshot)
    for name in chance.sample(sorted(found), 20):
        at, last = found[name], NOW + 60_000 << 64
        snapshot = replace(at.snapshot, newest=last, added=at.added + 1)
        found[name] = Position(last, at.added + 1, snapshot=snapshot)
    return found


@pytest.mark.parametrize("span", [5000, HOUR, 24 * HOUR, 30 * 24 * HOUR])
def test_the_offset_of_10_000_streams_is_below_64_kb(span):
    found = many(span, random.Random(49))
    text = json.dumps(offsets.dump(found))
    assert len(text) <= 64 * 1024
    assert offsets.load(json.loads(text)) == as_packed(found)


def test_the_offset_of_10_000_trimmed_or_partly_read_streams_is_near_the_least_there_can_be():
    # What is random cannot be packed, and Spark gives a reader that starts again no other offset to which this one could
    # be a difference. A number of so many bits takes five characters for four bytes.
    month = 30 * 24 * HOUR
    for found, bits in (
        (many(month, random.Random(49), most=100_000, length=1000), (month, 99_000, 100)),
        (many(HOUR, random.Random(49), newer=5000), (HOUR, 1000, 5000, 1000)),
    ):
        text = json.dumps(offsets.dump(found))
        least = 10_000 * sum(map(log2, bits)) / 8 * 5 / 4
        assert 84_000 < least < len(text) < 1.07 * least
        assert offsets.load(json.loads(text)) == as_packed(found)


def test_many_streams_that_were_packed_as_parquet_are_read():
    text = (Path(__file__).parent / "offset-in-parquet.json").read_text()
    seen = StreamSnapshot(5 << 64, 9 << 64 | 1, 6, 1)
    assert offsets.load(json.loads(text)) == {
        "s000": Position(1_764_433_200_000 << 64),
        "s001": Position(7 << 64, 3, 2, 1, seen),
        "s002": Position(7 << 64, 3, snapshot=ENDED),
    }


def test_offsets_of_version_2_are_read_in_rows_of_any_number():
    rows = {f"s{number}": [f"{number}-1", number] for number in range(1, 300)}
    assert offsets.load({"v": 2, "db": 0, "streams": rows}) == {
        f"s{number}": Position(number << 64 | 1, number) for number in range(1, 300)
    }


def row(at):
    return offsets.dump({"orders": at})["streams"]["orders"]


def test_the_json_is_the_documented_one():
    last = ids.parse("1526919030474-55")
    assert offsets.dump({"orders": Position(last, 1200)}) == {
        "v": 3,
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
        ({"v": 4, "streams": {}}, r"^\[REDIS_STREAMS.BAD_OFFSET\] .*version 4; this Rillet reads versions 2 and 3\. Go on"),
        ({"v": 1, "streams": {}}, "version 1; this Rillet reads versions 2 and 3"),
        ({"v": 2, "group": "g"}, "another mode"),
    ],
)  # fmt: skip
def test_other_offsets_are_refused(tree, message):
    with pytest.raises(OffsetError, match=message):
        offsets.load(tree)


@pytest.mark.parametrize("load", [offsets.load, GroupOffset.of_json])
@pytest.mark.parametrize("tree", [{}, {"orders": {"0": 5}}, [1], 7, "x", None])
def test_the_checkpoint_of_another_source_is_refused(load, tree):
    with pytest.raises(OffsetError, match="this checkpoint is of another source"):
        load(tree)
