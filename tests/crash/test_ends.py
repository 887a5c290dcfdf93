"""Ends at random moments of rewrites, full synchronizations and failovers: nothing that was acknowledged is lost.

RILLET_ENDS says how many of each kind (`make crash`: 200; 1 otherwise); RILLET_SEED gives other choices, if not its timing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.ends import THEMES, play

from rillet.storage import system

TIMES = int(os.environ.get("RILLET_ENDS", "1"))
SEED = int(os.environ.get("RILLET_SEED", "1"))
ENDS = [
    pytest.param(theme, how, id=f"{how} in {theme}", marks=pytest.mark.heavy if is_like_others else ())
    for how in ("kill", "TERM", "restart", "fork")
    for theme in THEMES
    for is_like_others in [how in {"restart", "fork"} and theme != "rewrites"]
]


@pytest.mark.parametrize(("theme", "how"), ENDS)
def test_an_end_loses_nothing_that_was_acknowledged(theme, how, record_property):
    if how != "fork":
        record_property("rounds", play(theme, how, TIMES, SEED))
        return
    if not system.HERE.has_fork:
        pytest.skip("the system has no fork")
    done = subprocess.run(
        [sys.executable, "-m", "support.ends", theme, str(TIMES), str(SEED)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record_property("rounds", done.stdout.strip())
