import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.group.offset import Claim, GroupOffset, Run, claims_of, shares
from rillet.pipeline.redis import ids
from rillet.pipeline.source.offsets import OffsetError
from rillet.pipeline.source.offsets import load as load_range
from rillet.pipeline.source.positions import Position

numbers = st.integers(0, ids.MAX_ID)
members = st.lists(
    st.integers(0, ids.MAX_ID) | st.integers(1 << 64, (1 << 64) + 50), min_size=1, unique=True
).map(lambda each: tuple(sorted(each)))
names = st.text(max_size=5) | st.binary(max_size=5).map(lambda key: key.decode(errors="surrogateescape"))
pieces = st.lists(
    st.builds(Run, names, numbers, numbers, st.integers(1, 5000))
    | st.builds(lambda name, at: Run(name, at, at, 1), names, numbers)
    | st.builds(Claim, names, names, st.integers(1, 9), members),
    max_size=6,
)


positions = st.dictionaries(names, st.builds(Position, numbers, st.integers(0, 9) | st.none()))


@given(pieces, positions)
def test_an_offset_survives_sparks_log(found, positions):
    offset = GroupOffset("g", "c", batch=3, pieces=tuple(found), gone=1, dead=2, positions=positions)
    again = GroupOffset.of_json(json.loads(json.dumps(offset.as_json())))
    assert sorted(again.pieces, key=repr) == sorted(found, key=repr)
    assert again.rows == offset.rows
    assert again.positions == positions
    assert (again.group, again.consumer, again.batch, again.gone, again.dead) == ("g", "c", 3, 1, 2)


def test_the_json_is_the_documented_one():
    runs = (Run("s", 5 << 64, 5 << 64 | 3, 2), Run("s", 7 << 64, 7 << 64, 1), Run("t", 4, 4, 1))
    claims = (Claim("s", "w", 2, (3 << 64, 3 << 64 | 2, 6 << 64 | 7)),)
    positions = {"s": Position(7 << 64, 9)}
    offset = GroupOffset("g", "c", 3, (*claims, *runs), gone=1, positions=positions)
    assert offset.as_json() == {
        "v": 3, "mode": "group", "group": "g", "consumer": "c", "db": 0, "batch": 3, "rows": 7, "gone": 1, "dead": 0,
        "pieces": {"s": [[[5, "5-3", 2], [7]], [["w", 2, "3-0 0-2 3-7"]]], "t": [[["0-4"]]]},
        "positions": {"s": [7, 9]},
    }  # fmt: skip


def test_the_positions_of_many_streams_are_packed():
    positions = {f"s{number:03}": Position(number << 64, 9) for number in range(101)}
    offset = GroupOffset("g", "c", positions=positions)
    tree = offset.as_json()
    assert isinstance(tree["positions"], str)
    assert GroupOffset.of_json(json.dumps(tree)) == offset
    rows = {name: [f"{at.id >> 64}-0", 9] for name, at in positions.items()}
    assert GroupOffset.of_json(tree | {"v": 2, "positions": rows}) == offset


@given(pieces.filter(bool), st.integers(1, 8))
def test_shares_keep_every_piece_in_order(found, parts):
    split = shares(found, [piece.count for piece in found], parts)
    assert [piece for share in split for piece in share] == found
    assert len(split) <= parts
    assert all(split)


def test_shares_are_about_equal():
    runs = [Run("s", at, at, 1000) for at in range(10)]
    assert [len(share) for share in shares(runs, [1] * 10, 2)] == [5, 5]
    assert [len(share) for share in shares(runs, [1] * 10, 20)] == [1] * 10


def test_claims_are_put_together_by_owner_and_count():
    taken = [(1, "a", 2), (2, "b", 2), (3, "a", 2), (4, "a", 3), (5, "a", 2)]
    assert claims_of("s", taken, 2) == [
        Claim("s", "a", 2, (1, 3)), Claim("s", "a", 2, (5,)), Claim("s", "b", 2, (2,)), Claim("s", "a", 3, (4,)),
    ]  # fmt: skip


def test_offsets_of_the_other_mode_are_refused():
    with pytest.raises(OffsetError, match="another mode"):
        GroupOffset.of_json({"v": 2, "streams": {"s": ["1-0", 1]}})
    with pytest.raises(OffsetError, match="another mode"):
        load_range(GroupOffset("g", "c").as_json())
    with pytest.raises(OffsetError, match=r"^\[REDIS_STREAMS.BAD_OFFSET\] .*version 4"):
        GroupOffset.of_json({"v": 4, "mode": "group"})
