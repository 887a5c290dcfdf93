"""A Python program in a process that is forked from one which has loaded pytest and redis-py already.

pytest with one test of a user takes 0.54 seconds of processor time, and 0.22 after a fork. Rillet and the plugins are loaded
by the program itself: that they can be is a part of what is tested.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Final

_PRELOAD: Final = (
    "email.parser", "execnet", "hmac", "mmap", "pdb", "pytest", "redis", "redis.asyncio", "secrets", "typing_extensions", "uvloop",
)  # fmt: skip
_SECONDS = 120


def run_python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS…``, which are a file or ``-m MODULE``, after ``-W error`` or not, and their arguments."""
    forks = _forks()
    assert forks.stdin is not None
    assert forks.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "words": words,
            "folder": str(cwd),
            "environment": dict(os.environ),
            "out": str(out),
            "err": str(err),
        }
        forks.stdin.write(json.dumps(request).encode() + b"\n")
        pid = int(forks.stdout.readline())
        if not select.select([forks.stdout], [], [], _SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            forks.stdout.readline()
            raise subprocess.TimeoutExpired(words, _SECONDS, out.read_bytes(), err.read_bytes())
        status = int(forks.stdout.readline())
        return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())


@cache
def _forks() -> subprocess.Popen[bytes]:
    """The process that forks: one for this process, which ends with it."""
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def _serve() -> None:
    del sys.path[0]  # this file's folder, which has modules of common names
    for name in (
        *_PRELOAD,
        *(f"_pytest.{name}" for name in importlib.import_module("_pytest.config").default_plugins),
    ):
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
            return
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(request: dict) -> None:
    """Be the program; its end is the interpreter's."""
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    words = request["words"]
    if words[0] == "-W":
        sys.warnoptions.append(words[1])
        warnings.simplefilter(words[1])
        words = words[2:]
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve()
