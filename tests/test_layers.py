"""The shape of the project: the sizes of files and rooms, their tests, the clock, and what the pipeline loads.

Which room may import which is the business of import-linter: pyproject.toml, ``make lint``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("protocol", "storage", "commands", "server", "pipeline", "console")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
# Rooms of programs beside the server, and of tests.
BESIDE = [
    path for folder in ("testing", "benchmarks", "tests") for path in sorted((ROOT / folder).rglob("*.py"))
]
ROOMS = sorted({path.parent for path in FILES + BESIDE})
PACKAGES = [
    path.parent.relative_to(ROOT).as_posix()
    for folder in (*FOLDERS, "testing")
    for path in sorted((ROOT / folder).rglob("__init__.py"))
]
# Rooms without a folder of tests, and what proves them instead.
PROVEN_BY = {
    "commands/geo": ("tests/differential/scripts/geo.script", "tests/differential/scripts/newer/geo.script"),
    "commands/hyperloglog": ("tests/differential/scripts/hyperloglog.script",),
    "commands/replication": ("tests/server/replication", "tests/differential/scripts/failover.script"),
    "console/style": ("tests/console/test_browser_report.py",),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_clock_asks_for_the_time(path):
    # The pipeline lives beside servers, not in one.
    if path.relative_to(ROOT).as_posix() == "server/clock.py" or path.is_relative_to(ROOT / "pipeline"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {
            "time.time",
            "time.time_ns",
            "datetime.now",
        }:
            pytest.fail(f"line {node.lineno}: {ast.unparse(node)}")


@pytest.mark.parametrize("path", FILES + BESIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_holds_one_idea(path):
    assert len(path.read_text().splitlines()) <= 550


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_holds_at_most_23_files(room):
    assert len(list(room.glob("*.py"))) <= 23


@pytest.mark.parametrize("room", PACKAGES)
def test_a_room_has_tests_where_a_stranger_looks_for_them(room):
    has_its_own = bool(list((ROOT / "tests" / room).rglob("test_*.py")))
    assert has_its_own != (room in PROVEN_BY)


def test_what_proves_rooms_without_a_folder_of_tests_is_there():
    assert PROVEN_BY.keys() <= set(PACKAGES)
    assert [place for places in PROVEN_BY.values() for place in places if not (ROOT / place).exists()] == []


def test_the_pipeline_is_imported_without_spark_or_a_server():
    program = (
        "import sys, rillet.pipeline, rillet.pipeline.cli.main, rillet.pipeline.redis.connection\n"
        "print(*[name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'rillet.server', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
