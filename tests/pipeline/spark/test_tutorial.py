"""The two minutes of docs/spark.md: its commands and its Python, on a port and in a folder of the test."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from support.servers import free_port, start_server

from rillet.pipeline.cli.main import VERBS, main

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
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
    with start_server("rillet", *flags, folder=tmp_path) as server:
        exec(compile(code.replace(port, str(server.port)), "spark.md", "exec"), {})
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
    assert (PAGE.parent / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_other_python_of_the_page_runs_as_written(spark, tmp_path):
    """Reading, writing, a session and the listener, in the order of the page."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", text[text.index("<!-- /tour -->") :], re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 4
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
    assert len(taken) == len(block.splitlines()) == 10
