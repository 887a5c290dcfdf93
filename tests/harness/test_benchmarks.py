"""The benchmarks that reach into a server still find what they watch there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def test_fairness_is_measured_with_the_longest_turn_and_what_it_was():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "fair.py", "--seconds", "0.3", "--plain", "--programs", "rillet", "--", "xadd"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    rows = [line for line in done.stdout.splitlines() if line.startswith("| XADD |")]
    assert len(rows) == 1, done.stdout + done.stderr
    assert " commands; " in rows[0]
