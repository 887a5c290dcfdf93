"""pytest in a process of its own, on a file of tests as a user writes it."""

import subprocess
import textwrap
from pathlib import Path

from _pytest.pytester import RunResult
from support.forks import run_python

# Plugins that no user's test here needs. They import all of Hypothesis and of valkey-py: half of a short run.
WITHOUT = ("-p", "no:hypothesispytest", "-p", "no:valkey", "-p", "no:time_machine")


class Run:
    """One run: the exit status and what was printed."""

    def __init__(self, done: subprocess.CompletedProcess) -> None:
        self.status = done.returncode
        self.output = done.stdout + done.stderr

    def outcome(self, **expected: int) -> None:
        """Assert the counts of the last line, `passed=2, skipped=1`."""
        assert RunResult.parse_summary_nouns(self.output.splitlines()) == expected, self.output


def run_tests(folder: Path, code: str, *words: str, ini: str = "") -> Run:
    """Run pytest in `folder` on `code`, which need not import pytest, with an ini file of these lines."""
    (folder / "test_it.py").write_text(f"import pytest\n{textwrap.dedent(code)}", encoding="utf-8")
    settings = "[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    (folder / "pytest.ini").write_text(settings + textwrap.dedent(ini), encoding="utf-8")
    return Run(
        run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *WITHOUT, "-rs", *words, cwd=folder)
    )
