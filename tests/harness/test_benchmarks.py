"""The benchmarks that reach into a server still find what they watch there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def test_waits_are_measured_with_the_longest_turn_and_what_it_was():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "waits.py", "--n", "1000", "--programs", "rillet", "--", "xgroup destroy"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    rows = [line for line in done.stdout.splitlines() if line.startswith("| XGROUP DESTROY with N pending |")]
    assert len(rows) == 1, done.stdout + done.stderr
    assert " commands; " in rows[0]
