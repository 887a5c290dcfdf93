"""The two minutes of docs/spark.md: its commands and its Python, on a port and in a folder of the test.

RILLET_PICTURES=1 keeps the picture of its report in docs/.
"""

import os
import re
import shlex
import struct
from importlib import import_module
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from support.ports import free_port
from support.programs.console import CHROMIUM_FLAGS, chromium
from support.servers import start_server

from rillet.pipeline.cli.main import VERBS, main

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
PICTURE = PAGE.parent / "report.png"
TOUR = re.compile(
    r"<!-- tour -->\n```sh\n(?P<start>.*?)```\n.*?```python\n(?P<code>.*?)```\n.*?```sh\n(?P<report>.*?)```\n<!-- /tour -->",
    re.DOTALL,
)


@pytest.fixture
def tour():
    found = TOUR.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found


def test_the_two_minutes_work_as_written(tour, spark, tmp_path):
    start, code, report = (tour[part] for part in ("start", "code", "report"))
    _, served = start.strip().splitlines()
    program, *flags, background = shlex.split(served)
    assert (program, background) == ("rillet", "&")
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    port, folder = given.pop("--port"), given.pop("--dir")
    assert start.splitlines()[0] == f"mkdir -p {folder}"
    flags = [word for pair in given.items() for word in pair]
    # Alice ends once all is done: on a busy machine 600 orders take longer than her ten seconds, on others less.
    assert "time.monotonic() > end" in code
    code = code.replace("time.monotonic() > end", "(time.monotonic() > end if crashes else all_is_done())")
    with start_server("rillet", *flags, folder=tmp_path) as server:
        names = {"all_is_done": lambda: all_is_done(names["shop"])}
        exec(compile(code.replace(port, str(server.port)), "spark.md", "exec"), names)
    program, pipeline, *words = shlex.split(report.replace(folder, str(tmp_path)))
    assert (program, pipeline) == ("rillet", "pipeline")
    assert main(words) == 0
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "1 of 600 delivered messages still unacknowledged" in page
    assert "<b>bob</b> fell silent; others took over" in page
    tables = tmp_path / "report" / "tables"
    [gone] = spark.read.parquet(str(tables / "abandoned")).collect()
    assert (gone.consumer, gone.pending) == ("bob", 0)
    assert gone.taken_away >= 10
    [poison] = spark.read.parquet(str(tables / "poison")).collect()
    assert poison.deliveries >= 5
    shown = tmp_path / "report" / "shown.html"
    shown.write_text(page.replace(str(tmp_path), folder), encoding="utf-8")  # as on the page of docs/
    picture = PICTURE if os.environ.get("RILLET_PICTURES") else tmp_path / "report.png"
    take_picture(shown, picture)
    assert size_of(picture) == size_of(PICTURE) == (1500, 1360)
    assert PICTURE.stat().st_size < 300_000
    assert "](report.png)" in PAGE.read_text(encoding="utf-8")


def all_is_done(shop):
    """Whether order 77 alone is left, was tried often enough, and was tried again three seconds after Bob's last call."""
    [group] = shop.xinfo_groups("orders")
    silent = {each["name"]: each["idle"] for each in shop.xinfo_consumers("orders", "billing")}
    left = shop.xpending_range("orders", "billing", "-", "+", 2)
    return (
        (group["entries-read"], len(left)) == (600, 1)
        and left[0]["times_delivered"] >= 5
        and silent.get("bob", 0) > left[0]["time_since_delivered"] + 3000
    )


def take_picture(page, picture):
    """Show the top of a report in a browser, at one and a quarter pixels a point."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        shown = browser.new_page(viewport={"width": 1200, "height": 1088}, device_scale_factor=1.25)
        shown.goto(page.as_uri())
        expect(shown.locator("h1")).to_contain_text("still unacknowledged")
        shown.screenshot(path=picture)
        browser.close()


def size_of(picture):
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_the_other_python_of_the_page_runs_as_written(spark, tmp_path):
    """Reading, writing, a session and the listener, in the order of the page."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", text[text.index("<!-- /tour -->") :], re.MULTILINE | re.DOTALL
    )
    # `test_page_examples` runs the others: they need data of their own.
    blocks = [block for block in blocks if "protobuf" not in block and "read_sources" not in block]
    assert len(blocks) == 6
    with start_server("rillet") as server, server.wire() as wire:
        wire.call("XADD", "orders", "1-0", "order", "7")
        places = {"7379": str(server.port), "/tmp/billed-checkpoint": str(tmp_path), "9108": str(free_port())}
        code = "\n".join(blocks)
        for there, here in places.items():
            assert there in code
            code = code.replace(there, here)
        names = {}
        exec(compile(code, "spark.md", "exec"), names)
        try:
            names["query"].processAllAvailable()
            [(_, fields)] = wire.call("XRANGE", "billed", "-", "+").plain()
            assert fields[-2:] == [b"order", b"7"]
        finally:
            names["query"].stop()
            spark.streams.removeListener(names["listener"])
            names["listener"].close()


def test_the_jobs_of_the_page_are_words_that_the_command_line_takes(monkeypatch):
    [block] = re.findall(
        r"^```sh\n(rillet pipeline ingest .*?)^```$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    taken = []
    for module, _ in VERBS.values():
        verb = import_module(module, "rillet.pipeline.cli")
        monkeypatch.setattr(verb, "run", lambda arguments: taken.append(arguments.verb) or 0)
    for line in block.splitlines():
        program, pipeline, *words = shlex.split(line, comments=True)
        assert (program, pipeline) == ("rillet", "pipeline")
        assert main(words) == 0, line
    assert len(taken) == len(block.splitlines()) == 9
