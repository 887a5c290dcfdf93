"""The report of the pipeline beside the console: the same style sheet and tiles, and as good to look at and to hear."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.programs.console import PHONE, WIDTH, violations

from rillet.console import style
from rillet.pipeline.report.page import Report, render
from rillet.pipeline.report.tables import TABLES, Bounds, Settings

pytestmark = pytest.mark.xdist_group("browser")

SUMS = {
    "messages": 40, "deliveries": 52, "redelivered": 6, "redeliveries": 12, "acked": 38, "pending": 2, "p50": 40,
    "p99": 900, "added": 60, "span_ms": 5_000,
    "owners": [{"db": 0, "stream": "orders", "group": "billing", "consumer": "Bob", "messages": 2, "deliveries": 6, "oldest_ms": 5, "newest_ms": 1}],
}  # fmt: skip
GONE = {
    "db": 0, "stream": "orders", "group": "billing", "consumer": "Bob", "pending": 2, "taken_away": 1,
    "last_seen_ms": 1, "silent_ms": 90_000,
}  # fmt: skip
PENDING = {
    "db": 0, "stream": "orders", "group": "billing", "entry_id": "1526919030474-0", "consumer": "Bob", "deliveries": 6,
    "delivered_ms": 1_000, "idle_ms": 90_000,
}  # fmt: skip


TRAFFIC = [
    {
        "ms": 1_800_000_000_000 + 60_000 * n, "added": n % 7, "delivered": n % 5, "acked": n % 5, "redelivered": n % 2,
    }
    for n in range(50)
]  # fmt: skip
TIMES = [
    {"db": 0, "stream": "orders", "group": group, "share": n / 100, "ms": n * n * slow}
    for group, slow in (("billing", 1), ("shipping", 50))
    for n in range(1, 101)
]


def report():
    found = {name: [] for name in (*TABLES, "histories")}
    found |= {"abandoned": [GONE], "pending": [PENDING], "traffic": TRAFFIC, "times": TIMES}
    bounds = Bounds(10, 1000, 5000, True, True, 5000, (1, 5), 1000)
    counts = {name: len(rows) for name, rows in found.items()}
    return render(Report("/data/aof", Settings(), bounds, SUMS, found, counts))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDTH, PHONE])
def test_the_report_is_accessible_and_fits(browser, tmp_path, width, scheme):
    (tmp_path / "report.html").write_text(report(), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator("h1")).to_contain_text("2 of 40")
    expect(page.locator(".chart canvas")).to_have_count(2)
    expect(page.locator(".u-legend").first).to_contain_text("acknowledged")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_both_have_the_same_style_sheet_and_the_same_tiles(consoles):
    base = (style.STATIC / "base.css").read_text(encoding="utf-8")
    _, console = consoles("rillet")
    assert base in report()
    assert console.ask("/static/shared/base.css").text == base
    for page in (report(), console.ask("/keys").text):
        assert '<div class="tile ' in page
    own = (Path(style.__file__).parents[1] / "static" / "console.css").read_text(encoding="utf-8")
    assert ":root" not in own  # colours are in one place
