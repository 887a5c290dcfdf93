"""The shape of the project: rooms and their tests, the clock, and what the pipeline loads.

One test for each rule, with the offenders in its message. Which room may import which is the business of import-linter:
pyproject.toml, ``make lint``. Sizes and words are advice (CONTRIBUTING.md), which no test holds.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("protocol", "storage", "commands", "server", "pipeline", "console")
ROOMS = [
    path.parent.relative_to(ROOT).as_posix()
    for folder in (*FOLDERS, "testing")
    for path in sorted((ROOT / folder).rglob("__init__.py"))
]
# Rooms without a folder of tests, and what proves them instead.
PROVEN_BY = {
    "commands/hyperloglog": ("tests/differential/scripts/hyperloglog.script",),
    "server/cluster/commands": ("tests/server/cluster",),
    "server/persistence/commands": ("tests/server/admin/test_lifecycle.py", "tests/server/persistence"),
    "server/replication/commands": ("tests/server/replication", "tests/differential/scripts/failover.script"),
    "server/sentinel/commands": ("tests/server/sentinel",),
    "console/style": ("tests/console/test_browser_report.py",),
}


CLOCKS = {"time.time", "time.time_ns", "datetime.now"}


def test_only_the_clock_asks_for_the_time():
    """The pipeline lives beside servers, not in one."""
    asks = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for folder in FOLDERS
        if folder != "pipeline"
        for path in sorted((ROOT / folder).rglob("*.py"))
        # The console is beside a server, too, and takes its own clock for a user who may not ask for TIME.
        if path not in {ROOT / "server" / "clock.py", ROOT / "console" / "replies.py"}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in CLOCKS
    ]
    assert asks == []


def test_every_room_has_tests_where_a_stranger_looks_for_them():
    without = {room for room in ROOMS if not list((ROOT / "tests" / room).rglob("test_*.py"))}
    assert without == PROVEN_BY.keys()
    gone = [place for places in PROVEN_BY.values() for place in places if not (ROOT / place).exists()]
    assert gone == []


def test_the_pipeline_is_imported_without_spark_or_a_server():
    program = (
        "import sys, rillet.pipeline, rillet.pipeline.cli.main, rillet.pipeline.redis.connection\n"
        "print(*[name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'rillet.server', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
