"""A page made of chosen rows."""

import pytest

from rillet.pipeline.report.page import Report, render
from rillet.pipeline.report.tables import TABLES, Bounds, Settings

SUMS = {
    "messages": 0, "deliveries": 0, "redelivered": 0, "redeliveries": 0, "acked": 0, "pending": 0, "p50": None,
    "p99": None, "added": 3, "owners": [], "span_ms": 5000,
}  # fmt: skip


def made(sums=None, *, is_timed=True, precise=True, at_ms=5000, contents=None, **tables):
    found = {name: tables.get(name, []) for name in (*TABLES, "histories")}
    bounds = Bounds(10, 1000, 5000, is_timed, precise, at_ms, (1, 5), 1000)
    counts = {name: len(rows) for name, rows in found.items()}
    return render(Report("/a/<b>", Settings(), bounds, SUMS | (sums or {}), found, counts, contents))


@pytest.fixture
def report():
    """`report(sums, …, poison=[row])`: the HTML of a report whose tables have these rows."""
    return made
