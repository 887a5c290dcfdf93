"""Programs in tests: any one to its end, and the tools of the command line in this process."""

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from rillet.__main__ import _tool


def run_program(*words: object, seconds: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=False, timeout=seconds, **options
    )


def run_tool(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run ``rillet NAME WORDS…``: the function that `main` calls, with what it prints and its status.

    A new Python for each case takes 0.2 s of processor time.
    """
    command = [name, *map(str, words)]
    tool = _tool(name)
    assert tool is not None
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = tool(command[1:])
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())
