"""The benchmark of waits runs, and prints a row for each operation."""

import sys
from pathlib import Path

from support.tool import run_program

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def test_waits_are_measured_with_the_work_behind_them():
    words = ("--entries", 1000, "--programs", "rillet", "--", "xgroup destroy")
    done = run_program(sys.executable, BENCHMARKS / "waits.py", *words)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| XGROUP DESTROY with N pending |")]
    assert len(rows) == 1, done.stdout + done.stderr
    longest, p999, work, lasts = map(float, rows[0].strip("| ").split(" | ")[1:])
    assert longest >= p999 > 0
    assert work >= 0 <= lasts  # both are rounded, and a thousand take next to nothing
