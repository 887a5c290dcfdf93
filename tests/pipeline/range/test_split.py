"""pipeline/range/split.py: pieces cover a range exactly once, in order."""

from hypothesis import example, given
from hypothesis import strategies as st

from rillet.pipeline.range.split import IdRange, join_steps, part_count, share_rows, split_evenly
from rillet.pipeline.redis import ids

stream_ids = st.integers(0, 50) | st.integers(0, ids.MAX_ID)


@given(stream_ids, stream_ids, st.integers(1, 9), st.none() | stream_ids)
def test_even_pieces_cover_the_range_without_gaps(after, upto, parts, first):
    pieces = split_evenly(after, upto, parts, first=first)
    assert bool(pieces) == (after < upto)
    assert len(pieces) <= parts
    bounds = [after, *(piece.upto for piece in pieces)]
    assert [piece.after for piece in pieces] == bounds[:-1]
    assert bounds == sorted(set(bounds))
    if pieces:
        assert bounds[-1] == upto


def test_time_before_the_first_entry_gets_no_piece_of_its_own():
    first = ids.parse("1700000000000-0")
    pieces = split_evenly(0, first + 100, 4, first=first)
    assert [piece.upto - first for piece in pieces] == [24, 49, 74, 100]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 8))
def test_joined_steps_keep_every_row_and_are_about_even(sizes, parts):
    steps = [(index + 1, rows) for index, rows in enumerate(sizes)]
    pieces = join_steps(0, steps, parts)
    assert sum(piece.rows for piece in pieces) == sum(sizes)
    assert [piece.after for piece in pieces] == [0, *(piece.upto for piece in pieces)][:-1]
    assert pieces[-1].upto == len(sizes)
    assert len(pieces) <= parts
    assert max(piece.rows for piece in pieces) <= sum(sizes) / parts + max(sizes)


def test_no_steps_are_no_pieces():
    assert join_steps(0, [], 3) == []
    assert join_steps(5, [(7, 0)], 3) == [IdRange(5, 7, 0)]


def test_tasks_are_as_many_as_asked_for_or_as_rows_need():
    assert part_count(0, least=4, rows_per_part=10) == 1
    assert part_count(3, least=4, rows_per_part=10) == 3
    assert part_count(31, least=1, rows_per_part=10) == 4


@given(st.integers(1, 1000), st.dictionaries(st.text(max_size=3), st.integers(-1, 500), max_size=8))
@example(401, {"a": 2, "b": 2, "c": 398})
def test_shares_never_exceed_the_limit_nor_a_backlog(limit, backlogs):
    shares = share_rows(limit, backlogs)
    waiting = {name: rows for name, rows in backlogs.items() if rows > 0}
    assert shares.keys() == waiting.keys()
    assert all(shares.values())
    if limit >= len(waiting):
        assert sum(shares.values()) == min(limit, sum(waiting.values()))
        assert all(shares[name] <= rows for name, rows in waiting.items())
