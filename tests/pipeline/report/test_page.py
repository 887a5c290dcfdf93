"""The page and the words of a report, without Spark."""

import html
import io
import json
import re

import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.cli.progress import Progress

GROUP = dict.fromkeys(
    "messages deliveries redelivered acked pending ack_p50 ack_p90 ack_p99 ack_max total_p50".split(), 1
)
GONE = {
    "db": 0, "stream": "s", "group": "g", "consumer": "ann", "pending": 2, "taken_away": 0, "last_seen_ms": 1, "silent_ms": 90_000,
}  # fmt: skip


def charts(page):
    """The kind of x and the data of each chart."""
    found = re.findall(r'data-x="(\w+)" data-chart="([^"]*)"', page)
    return [(kind, json.loads(html.unescape(data))) for kind, data in found]


def test_a_ledger_without_deliveries_has_a_page(report):
    page = report()
    assert "No message was delivered to any consumer group" in page
    assert "Nothing was pending at 1970-01-01 00:00:05.000 UTC." in page
    assert "/a/&lt;b&gt;" in page
    assert "<figure" not in page


def test_the_page_says_how_well_the_ledger_is_timed(report):
    assert "aof-timestamp-enabled" not in report()
    assert "Acknowledgements are timed to the second." in report(precise=False)
    assert "The file says only in part when things happened" in report(is_timed=False, precise=False)


def test_a_moment_outside_of_the_file_is_reported(report):
    assert "Mind the moment" not in report()
    assert "00:00:00.999 is before the first event, 1970-01-01 00:00:01.000" in report(at_ms=999)
    assert "00:00:05.001 is after the last event, 1970-01-01 00:00:05.000" in report(at_ms=5001)


def test_one_message_is_not_messages(report):
    page = report({"messages": 1, "deliveries": 1, "pending": 1})
    assert "<h1>1 of 1 delivered message still unacknowledged</h1>" in page
    assert "took 1 delivery of 1 message." in page


def test_names_of_people_are_not_html(report):
    row = GONE | {"db": 2, "stream": "<s>", "group": "<g>", "consumer": "<script>"}
    page = report({"messages": 2, "pending": 2}, abandoned=[row])
    assert page.count("<script>") == 1  # that of the page
    assert "<b>&lt;script&gt;</b> has 2 messages in its hands and has been silent for 1 min 30 s." in page
    assert "db 2" in page


def test_no_value_of_any_table_becomes_markup(report):
    numbers = (
        "db messages deliveries redelivered acked pending taken_over taken_away repeated given_back lost ack_p50 ack_p90 "
        "ack_p99 ack_max total_p50 first_ms last_ms last_seen_ms silent_ms delivered_ms idle_ms oldest_ms newest_ms"
    )
    row = dict.fromkeys(numbers.split(), 7)
    row |= dict.fromkeys(("stream", "group", "consumer", "entry_id", "path", "state"), "<img src='x'>&")
    shown = ("groups", "poison", "abandoned", "pending")
    page = report({"messages": 7, "owners": [row]}, **{name: [row] for name in shown})
    assert "<img" not in page
    # stream and group in five tables, consumer in three, entry in two, path and state in one; three in the story
    assert page.count("&lt;img src=&#39;x&#39;&gt;&amp;") == 5 * 2 + 3 + 2 + 2 + 3


def test_the_line_that_helps_is_beside_what_is_wrong(report):
    row = {
        "db": 2, "stream": "it's", "group": "g", "entry_id": "5-0", "deliveries": 7, "path": "ann", "state": "pending",
        "first_ms": 1, "last_ms": 1,
    }  # fmt: skip
    page = report(poison=[row, row | {"entry_id": "6-0", "state": "acked"}])
    assert "<code>redis-cli -n 2 XACK &#39;it&#39;&#34;&#39;&#34;&#39;s&#39; g 5-0</code>" in page
    assert "g 6-0</code>" not in page
    page = report(abandoned=[GONE, GONE | {"pending": 0, "taken_away": 1}])
    assert page.count("<code>redis-cli XAUTOCLAIM s g <i>consumer</i> 90000 0</code>") == 1


def test_each_cell_knows_its_heading_for_narrow_screens(report):
    cells = re.findall(r"<td [^>]*>", report(abandoned=[GONE | {"pending": 0, "taken_away": 1}]))
    assert len(cells) == 7
    assert all('data-of="' in cell for cell in cells)


def test_a_curve_has_the_times_of_its_group_and_no_zero_which_has_no_logarithm(report):
    rows = [
        {"db": 0, "stream": stream, "group": "g", "share": share, "ms": ms}
        for stream, found in (("<s>", (0, 40)), ("t", (5, 9000)))
        for share, ms in zip((0.5, 1.0), found, strict=True)
    ]
    assert charts(report(times=rows)) == [
        ("share", {"names": ["<s> / g", "t / g"], "rows": [[0.5, 1.0], [0.5, 40], [5, 9000]]})
    ]


def test_what_happened_is_drawn_over_time_and_the_lag_of_each_group_below(report):
    traffic = [{"ms": ms, "added": 1, "delivered": 2, "acked": 3, "redelivered": None} for ms in (1000, 2500)]
    lag = [
        {"db": 2, "stream": "s", "group": "g", "ms": ms, "waiting": 7, "pending": 8} for ms in (1000, 2500)
    ]
    group = {"db": 2, "stream": "s", "group": "g"}
    page = report(traffic=traffic, lag=[*lag, lag[0] | {"group": "other"}], groups=[GROUP | group])
    first, second = charts(page)
    assert first[1]["rows"] == [[1.0, 2.5], [1, 1], [2, 2], [3, 3], [0, 0]]
    assert second == (
        "time",
        {"names": ["not yet delivered", "delivered, not acknowledged"], "rows": [[1.0, 2.5], [7, 7], [8, 8]]},
    )
    assert "<figcaption>Messages per 1.5 s</figcaption>" in page
    assert "<figcaption>s / g (db 2)</figcaption>" in page
    assert charts(report(traffic=traffic[:1])) == []


def test_messages_are_counted_by_deliveries_over_all_groups(report):
    rows = [{"deliveries": number, "messages": 3} for number in (1, 2, 1, 10, 40)]
    page = report(repeats=rows)
    cells = re.findall(r'data-of="(?:deliveries|messages)"><span>([^<]*)</span>', page)
    assert cells == ["1", "6", "2", "3", "10+", "6"]


def test_progress_counts_its_steps():
    out = io.StringIO()
    progress = Progress(2, out)
    with progress.step("first"):
        progress.note("3 rows")
    with pytest.raises(ZeroDivisionError), progress.step("second"):
        _ = 1 / 0
    assert [line.partition(" (")[0] for line in out.getvalue().splitlines()] == [
        "[1/2] first: 3 rows",
        "[2/2] second: failed",
    ]


def test_a_terminal_shows_the_step_that_is_under_way():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    progress = Progress(1, out)
    with progress.step("one"):
        assert out.getvalue() == "[1/1] one …"
        progress.say("a line of its own")
    assert "\r\x1b[2Ka line of its own\n" in out.getvalue()
    assert "[1/1] one (" in out.getvalue().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nowhere"], "nowhere does not exist"), (["."], "must hold one manifest")],
)  # fmt: skip
def test_what_is_wrong_is_said_before_spark_starts(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 1
    assert said in capsys.readouterr().err
