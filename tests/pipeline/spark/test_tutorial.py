"""The two minutes of docs/spark.md: its commands and its Python, on a port and in a folder of the test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support.servers import start_server

from rillet.pipeline.cli.main import main

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
