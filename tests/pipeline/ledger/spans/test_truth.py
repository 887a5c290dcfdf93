"""The ledger against XPENDING: what it says was pending is what the server said, then and now."""

import pytest
from support.pipeline.ledger_workload import MARKS, Workload

from rillet.pipeline.ledger.files.plan import read_ledger
from rillet.pipeline.ledger.records import sorter
from rillet.pipeline.ledger.spans.spans import Replay, Span
from rillet.pipeline.ledger.spelling import spell_name

Row = list[object]


def rows_of(folder, **options) -> list[Row]:
    found = []
    for batch in read_ledger(str(folder / "appendonlydir"), **options):
        found += [list(row.values()) for row in batch.to_pylist()]
    return found


def spans_of(rows: list[Row]) -> list[Span]:
    replay = Replay()
    ended = [span for row in rows for span in replay.feed(row)]
    return ended + list(replay.rest())


def held_at(
    spans: list[Span], position: tuple[int, int]
) -> dict[tuple[int, str, str], dict[str, tuple[str | None, int]]]:
    found: dict = {}
    for span in spans:
        is_begun = (span.from_seq, span.from_ordinal) <= position
        if is_begun and (span.until_seq is None or (span.until_seq, span.until_ordinal or 0) > position):
            found.setdefault((span.db, span.stream, span.group), {})[span.entry_id] = (
                span.consumer,
                span.retry_count,
            )
    return found


def marks_of(rows: list[Row]) -> list[tuple[int, int]]:
    """Where the moments are."""
    return [(row[10], row[11]) for row in rows if row[1] == MARKS and row[5] == "added" and row[11] >= 0]


@pytest.mark.parametrize("rdb_base", [True, False], ids=["rdb base", "command base"])
@pytest.mark.parametrize("kind", ["rillet", "rillet-7.0", "redis7", "valkey"])
def test_the_pending_lists_of_the_ledger_are_those_of_the_server_at_every_moment(kind, rdb_base, tmp_path):
    workload = Workload(kind, tmp_path, seed=11 + rdb_base, rdb_base=rdb_base)
    try:
        workload.run(400)
    finally:
        workload.stop()
    rows = rows_of(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorter, "USUAL", {})  # the recorder gets every command
        assert rows_of(tmp_path) == rows
    positions = marks_of(rows)
    assert len(positions) == len(workload.moments) == 11
    spans = spans_of(rows)
    for position, truth in zip(positions, workload.moments, strict=True):
        expected = {
            (db, spell_name(key.encode()), group): held for (db, key, group), held in truth.items() if held
        }
        assert held_at(spans, position) == expected
