"""The report of a small story that is known to the millisecond."""

import io
import re
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rillet.testing
from rillet.pipeline.cli.progress import Progress
from rillet.pipeline.report import tables
from rillet.pipeline.report.command import draw
from rillet.pipeline.report.gather import Gathering

STREAM = "<i>orders & $x$"
BEGIN = 1_800_000_000_000


class Story:
    """Six entries. Alice acknowledges two after 50 and 150 ms; Bob takes the third from her after 5 s, tries twice and
    acknowledges it; Carol takes one and is never seen again; two are never read."""

    def __init__(self, folder):
        self.folder = str(folder / "appendonlydir")
        self.pending = {}
        flags = {"aof_timestamp_enabled": "ms", "appendonly": True, "dir": str(folder), "save": ""}
        with rillet.testing.Server(**flags) as self.server:
            self.client = self.server.client(decode_responses=True)
            self.at(0)
            self.client.xgroup_create(STREAM, "g", "0", mkstream=True)
            self.ids = [self.client.xadd(STREAM, {"n": n}) for n in range(6)]
            self.at(1000)
            self.read("alice", 3)
            self.at(1050)
            self.client.xack(STREAM, "g", self.ids[0])
            self.at(1150)
            self.client.xack(STREAM, "g", self.ids[1])
            self.read("carol", 1)
            for when in (6000, 7000):
                self.at(when)
                self.client.xclaim(STREAM, "g", "bob", 0, [self.ids[2]])
            self.at(8000)
            self.client.xack(STREAM, "g", self.ids[2])
            self.at(100_000)
            self.client.xadd("other", {"n": 1})
            self.at(100_001)

    def at(self, ms):
        """Go on to a moment; what was pending before it is noted."""
        if ms:
            found = self.client.xpending_range(STREAM, "g", "-", "+", 10)
            self.pending[self.server.clock.now] = {
                each["message_id"]: (each["consumer"], each["times_delivered"]) for each in found
            }
        self.server.clock.freeze(BEGIN + ms)

    def read(self, consumer, count):
        self.client.xreadgroup("g", consumer, {STREAM: ">"}, count=count)


def report_on(spark, folder, out, *, here=True):
    """The page of a report, and what was said while it was made."""
    said = io.StringIO()
    settings = tables.Settings(poison_from=3)
    progress = Progress(4, said)
    report = Gathering(spark, folder, out / "tables", settings, progress, here=here).run()
    return draw(report, out, progress), said.getvalue()


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    story = Story(tmp_path_factory.mktemp("story"))
    out = tmp_path_factory.mktemp("report")
    page, said = report_on(spark, story.folder, out)

    def table(name):
        return [row.asDict() for row in spark.read.parquet(str(out / "tables" / name)).collect()]

    return SimpleNamespace(
        story=story, table=table, page=page.read_text(encoding="utf-8"), said=said, out=out
    )


@pytest.fixture
def gather(spark, tmp_path):
    """Gathers a report on what is below the test's folder, with the settings that nobody chose."""
    settings = tables.Settings()
    folder = str(tmp_path / "appendonlydir")
    gathering = Gathering(spark, folder, tmp_path, settings, Progress(3, io.StringIO()), here=True)

    def replayed(table):
        bounds = gathering._replay()
        tables.define(spark)
        return table(spark, bounds, settings).collect()

    return SimpleNamespace(run=gathering.run, rows=replayed)


@pytest.fixture
def server(tmp_path):
    """A server whose append-only file is below the test's folder."""
    with rillet.testing.Server(
        aof_timestamp_enabled="ms", appendonly=True, dir=str(tmp_path), save=""
    ) as server:
        yield server


def picked(row, names):
    return tuple(row[name] for name in names.split())


def test_messages_and_deliveries_are_counted_by_group(made):
    [row] = made.table("groups")
    names = "stream group messages deliveries redeliveries redelivered acked pending most_deliveries"
    assert picked(row, names) == (STREAM, "g", 4, 6, 2, 1, 3, 1, 3)
    assert row["redelivery_rate"] == pytest.approx(2 / 6)


def test_the_time_to_acknowledge_counts_from_the_first_delivery(made):
    [row] = made.table("groups")
    assert picked(row, "ack_count ack_p50 ack_max") == (3, 150, 7000)
    assert picked(row, "total_p50 total_max") == (1150, 8000)
    shares = {row["share"]: row["ms"] for row in made.table("times")}
    assert shares[0.5] == 150
    assert shares[1.0] == 7000


def test_what_was_delivered_as_often_as_the_settings_say_is_poison(made):
    [row] = made.table("poison")
    assert picked(row, "entry_id deliveries consumers path state") == (
        made.story.ids[2], 3, 2, "alice → bob → bob", "acked",
    )  # fmt: skip
    repeats = [picked(row, "deliveries messages") for row in made.table("repeats")]
    assert repeats == [(1, 3), (3, 1)]


def test_the_scoreboard_says_what_each_consumer_did(made):
    names = "deliveries first taken_over repeated acked taken_away pending last_seen_ms"
    found = {row["consumer"]: picked(row, names) for row in made.table("consumers")}
    assert found == {
        "alice": (3, 3, 0, 0, 2, 1, 0, BEGIN + 1150),
        "bob": (2, 0, 1, 1, 1, 0, 0, BEGIN + 8000),
        "carol": (1, 1, 0, 0, 0, 0, 1, BEGIN + 1150),
    }


def test_a_consumer_that_fell_silent_with_messages_is_abandoned(made):
    names = "consumer pending taken_away silent_ms"
    assert [picked(row, names) for row in made.table("abandoned")] == [
        ("carol", 1, 0, 98_850),
        ("alice", 0, 1, 98_850),
    ]


def test_the_lag_goes_down_as_a_group_reads(made):
    rows = made.table("lag")
    step = rows[1]["ms"] - rows[0]["ms"]
    curve = {row["ms"] - BEGIN: (row["waiting"], row["pending"]) for row in rows}
    assert step == 1000
    assert [curve[at] for at in (0, 1000, 5000, 8000, 100_000)] == [(6, 0), (2, 2), (2, 2), (2, 1), (2, 1)]
    traffic = {
        row["ms"] - BEGIN: picked(row, "added delivered redelivered acked") for row in made.table("traffic")
    }
    assert [traffic[at] for at in (0, 1000, 6000, 8000)] == [
        (6, 0, 0, 0), (0, 4, 0, 2), (0, 0, 1, 0), (0, 0, 0, 1),
    ]  # fmt: skip


def test_the_pending_lists_are_those_of_the_server_at_every_moment(made, spark):
    assert len(made.story.pending) == 8
    for moment, truth in made.story.pending.items():
        settings = tables.Settings(at_ms=moment)
        bounds = tables.define_events(spark, settings)
        found = tables.pending(spark, bounds, settings).collect()
        assert {row.entry_id: (row.consumer, row.deliveries) for row in found} == truth, moment
    [row] = made.table("pending")
    assert picked(row, "consumer delivered_ms idle_ms") == ("carol", BEGIN + 1150, 98_850)


def test_before_the_beginning_nothing_was_pending(made, spark):
    settings = tables.Settings(at_ms=5)
    assert tables.pending(spark, tables.define_events(spark, settings), settings).collect() == []


def test_the_page_shows_it_and_needs_nothing_else(made):
    assert "<h1>1 of 4 delivered messages still unacknowledged</h1>" in made.page
    assert "<b>carol</b> has 1 message in its hands and has been silent for 1 min 39 s." in made.page
    assert STREAM not in made.page
    assert "&lt;i&gt;orders &amp; $x$" in made.page
    assert made.page.count("<figure>") == 3
    outside = re.findall(r'(?:src|href)="(?!#)[^"]*"|url\((?!#)[^)]*\)|@import', made.page)
    assert outside == []


def test_poison_and_pending_messages_have_their_story(made):
    names = "entry_id consumer began began_ms ended ended_ms step steps"
    poison, pending = made.story.ids[2:4]
    assert [picked(row, names) for row in made.table("histories")] == [
        (poison, "alice", "first", BEGIN + 1000, "claimed", BEGIN + 6000, 1, 3),
        (poison, "bob", "claimed", BEGIN + 6000, "repeated", BEGIN + 7000, 2, 3),
        (poison, "bob", "repeated", BEGIN + 7000, "acked", BEGIN + 8000, 3, 3),
        (pending, "carol", "first", BEGIN + 1150, None, None, 1, 1),
    ]
    stories = re.findall(r'<div id="message-\d"><dl class="fields">(.*?)</dl>', made.page)
    assert stories == [f"<div><dt>n</dt><dd><bdi>{n}</bdi></dd></div>" for n in (2, 3)]


def test_what_is_no_id_has_no_story_and_is_no_part_of_a_query(made, spark, tmp_path):
    gathering = Gathering(spark, made.story.folder, tmp_path, tables.Settings(), Progress(1, io.StringIO()))
    row = {"db": 0, "stream": STREAM, "group": "g"}
    assert gathering._histories([row | {"entry_id": "1-0') OR ('a' = 'a"}, row | {"entry_id": "x"}]) == []
    [last, *_] = gathering._histories([row | {"entry_id": made.story.ids[3]}])
    assert last["consumer"] == "carol"
    assert gathering._read_contents([row | {"entry_id": made.story.ids[3]}]) == {
        (0, STREAM, made.story.ids[3]): [b"n", b"3"]
    }


def test_progress_names_every_step(made):
    assert made.said.startswith("[1/4] reading the append-only files: ")
    assert "[4/4] drawing the page: " in made.said


def test_tasks_of_spark_find_what_is_found_without_them(made, spark, tmp_path):
    page, _ = report_on(spark, made.story.folder, tmp_path, here=False)
    assert page.read_text(encoding="utf-8") == made.page
    for name in ("ledger", "spans", "histories", *tables.TABLES):
        here, there = (read(out / "tables" / name) for out in (made.out, tmp_path))
        assert here.schema.names == there.schema.names
        assert in_order(here) == in_order(there), name


def test_a_file_without_annotations_has_acknowledgements_over_time(tmp_path, gather):
    with rillet.testing.Server(appendonly=True, dir=str(tmp_path), save="") as server:
        client = server.client()
        client.xgroup_create("s", "g", "0", mkstream=True)
        for n in range(3):
            server.clock.freeze(BEGIN + 1000 * n)
            entry = client.xadd("s", {"n": n})
            client.xreadgroup("g", "ann", {"s": ">"})
            client.xack("s", "g", entry)
    found = gather.run().tables
    assert sum(row["acked"] for row in found["traffic"]) == 3
    assert found["times"][-1]["share"] == 1.0


def read(folder):
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet")))


def in_order(rows):
    return sorted(map(repr, rows.to_pylist()))


def test_a_ledger_of_months_has_points_of_days(server, gather):
    server.clock.freeze(BEGIN)
    client = server.client()
    client.xgroup_create("s", "g", "0", mkstream=True)
    for day in (0, 100, 200):
        server.clock.freeze(BEGIN + day * 86_400_000)
        client.xadd("s", {"day": day})
        client.xreadgroup("g", "ann", {"s": ">"})
    server.stop()
    traffic = gather.rows(tables.traffic)
    assert [(row.ms - BEGIN) // 86_400_000 for row in traffic if row.added] == [0, 100, 200]
    assert gather.rows(tables.lag)[-1].pending == 3


def test_the_lag_begins_with_the_stream_for_groups_made_later_too_and_again_after_a_deletion(server, gather):
    client = server.client()
    for at, lines in enumerate((
        "XGROUP CREATE s early 0 MKSTREAM", "XADD s * n 1", "XGROUP CREATE s late 0", "XREADGROUP GROUP late ann STREAMS s >",
        "DEL s", "XGROUP CREATE s late 0 MKSTREAM", "XADD s * n 0|XADD s * n 1|XADD s * n 2", "XGROUP DESTROY s late",
    )):  # fmt: skip
        server.clock.freeze(BEGIN + at)
        for line in lines.split("|"):
            client.execute_command(*line.split())
    server.stop()
    curves = {}
    for row in gather.rows(tables.lag):
        curves.setdefault(row.group, []).append((row.ms - BEGIN, row.waiting))
    assert curves == {
        "early": list(enumerate((0, 1, 1, 1, 0, 0, 0, 0))),
        "late": list(enumerate((0, 0, 1, 0, 0, 0, 3, 0))),
    }
