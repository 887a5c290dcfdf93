"""The usual commands, many at a time: the rows are those of a recorder that takes one after the other."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.pipeline.ledger import schema
from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.ledger.records import sorter
from rillet.pipeline.ledger.records.arrow_batches import batches
from rillet.pipeline.ledger.records.recorder import Recorder
from rillet.pipeline.ledger.records.sorter import Sorter

names = st.sampled_from([b"s", b"orders", b"caf\xc3\xa9", b"\xff", b"a\\x5c", b""])
ids = st.sampled_from(
    [b"1-1", b"1790000000000-0", b"1790000000000-10", b"12-0", b"5", b"007-1", b"5-01", b"18446744073709551615-3",
     b"9223372036854775808-0", b"$", b"1,2-3", b"1-1,2-2"]
)  # fmt: skip
numbers = st.sampled_from([b"1", b"2", b"01", b"1790000000123", b"18446744073709551616", b"-1", b"x", b""])


@st.composite
def claims(draw) -> list[bytes]:
    words = [
        b"XCLAIM", draw(names), draw(names), draw(names), b"0", draw(ids), b"TIME", draw(numbers), b"RETRYCOUNT",
        draw(numbers), b"FORCE", b"JUSTID", b"LASTID", draw(ids),
    ]  # fmt: skip
    return draw(
        st.sampled_from([words, words, words, words[:12], [*words[:6], *words[8:10], *words[6:8], *words[10:]], [*words, b"x"]]),
    )  # fmt: skip


@st.composite
def adds(draw) -> list[bytes]:
    options = draw(
        st.sampled_from(
            [
                [], [], [], [b"MAXLEN", b"=", b"5"], [b"maxlen", b"=", b"17"], [b"MAXLEN", b"5"],
                [b"MAXLEN", b"=", b"x"], [b"NOMKSTREAM"], [b"minid", b"=", b"3-0"], [b"MINID", b"=", b"3"],
                [b"MAXLEN", b"=", b"5", b"LIMIT", b"7"],
            ]
        )
    )  # fmt: skip
    return [b"XADD", draw(names), *options, draw(ids), b"f", b"v"]  # fmt: skip


acks = st.builds(
    lambda key, group, found: [b"XACK", key, group, *found], names, names, st.lists(ids, max_size=4)
)
moves = st.builds(
    lambda what, key, group, last, tail: [b"XGROUP", what, key, group, last, *tail],
    st.sampled_from([b"SETID", b"SETID", b"CREATE", b"setid"]),
    names, names, ids,
    st.sampled_from([[b"ENTRIESREAD", b"7"], [b"ENTRIESREAD", b"7"], [b"ENTRIESREAD", b"-1"], [], [b"entriesread", b"3"]]),
)  # fmt: skip
others = st.sampled_from(
    [
        [b"MULTI"], [b"EXEC"], [b"multi"], [b"SELECT", b"3"], [b"SELECT", b"0"], [b"select", b"1"], [b"DEL", b"s", b"t"],
        [b"XDEL", b"s", b"1-1"], [b"HSET", b"h", b"f", b"v"], [b"XADD"], [b"XACK", b"s"], [b"XADD", b"s", b"*", b"f", b"v"],
        [b"xack", b"s", b"g", b"1-1"], [b"xadd", b"s", b"1-1", b"f", b"v"],
    ]
)  # fmt: skip
commands = st.one_of(claims(), adds(), acks, moves, others)
runs = st.lists(
    st.tuples(st.sampled_from([None, 5, 1_790_000_000_000]), st.lists(commands, max_size=6)),
    min_size=1,
    max_size=6,
)


def rows_of(
    found: list[tuple[int | None, list[list[bytes]]]], *, one_by_one: bool
) -> list[tuple[object, ...]] | str:
    """The sorted rows, and the state behind them; or that there was an error."""
    sorter = Sorter(Recorder())
    taken, clocks, rows = [], [], []
    for clock, more in found:
        taken += more
        clocks.append((len(taken), clock))
    try:
        if one_by_one:
            for number, command in enumerate(taken):
                clock = next(clock for end, clock in clocks if end > number)
                sorter.take([command], [7 * schema.BLOCK_ORDINAL + number * schema.RECORD], [(1, clock)])
        else:
            first = 7 * schema.BLOCK_ORDINAL
            sorter.take(taken, range(first, first + len(taken) * schema.RECORD, schema.RECORD), clocks)
        rows = [tuple(row.values()) for batch in batches(sorter, 3) for row in batch.to_pylist()]
    except LedgerError:
        return "refused"
    recorder = sorter.recorder
    at = schema.NAMES.index("ordinal")
    return [*sorted(rows, key=lambda row: row[at]), (recorder.db, recorder.in_transaction)]


@pytest.fixture(scope="module")
def slow():
    """All go to the recorder."""
    return pytest.MonkeyPatch()


@given(found=runs)
@example(
    [(None, [[b"XADD", b"s", b"1-1", b"f", b"v"]] * 3), (5, [[b"XACK", b"s", b"g", b"1-1", b"2-2"]] * 2)]
)
def test_the_rows_are_those_of_the_recorder(slow, found):
    quick = rows_of(found, one_by_one=False)
    slow.setattr(sorter, "USUAL", {})
    expected = rows_of(found, one_by_one=True)
    slow.undo()
    assert quick == expected


def test_a_record_that_is_no_list_of_words_is_refused():
    for record in ([[b"nested"]], [1], b"text", [b"XADD", b"s", 5], [b"XCLAIM", *[7] * 13]):
        with pytest.raises(LedgerError):
            Sorter(Recorder()).take([record], [0], [(1, None)])  # type: ignore[list-item]
