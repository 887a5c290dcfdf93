"""A Python program in a process that is forked from one which has loaded some modules already.

pytest with one test of a user takes 0.54 seconds of processor time, and 0.22 after a fork from a process with pytest and
redis-py. Rillet and the plugins are loaded by the program itself: that they can be is a part of what is tested.
"""

import atexit
import contextlib
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
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_PRELOAD: Final = (
    "email.parser", "execnet", "hmac", "mmap", "pdb", "pytest", "redis", "redis.asyncio", "secrets", "typing_extensions", "uvloop",
)  # fmt: skip
_SECONDS = 120


class Forks:
    """A process that has loaded some modules and forks for each program; it ends with this process."""

    def __init__(self, *preload: str) -> None:
        command = [sys.executable, __file__, *preload]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._ended: dict[int, int] = {}
        self._lock = threading.Lock()
        atexit.register(self._end)

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def start(
        self, words: Sequence[str], folder: str, out: Path, err: Path, environment: Mapping[str, str]
    ) -> int:
        """Run ``python WORDS…``, which are a file, ``-c PROGRAM`` or ``-m MODULE``, after ``-W error`` or not, and their arguments."""
        request = {
            "words": words,
            "folder": folder,
            "environment": dict(environment),
            "out": str(out),
            "err": str(err),
        }
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            while (pid := self._read()) is None:
                pass
            return pid

    def wait(self, pid: int, seconds: float | None) -> int | None:
        """Return the status of a program that has ended, or None if it has not by then."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            while pid not in self._ended:
                left = None if until is None else max(0, until - time.monotonic())
                if not select.select([self._process.stdout], [], [], left)[0]:
                    return None
                self._read()
            return self._ended[pid]

    def _read(self) -> int | None:
        """Read a line: the number of a program that has started, or it and the status of one that has ended."""
        assert self._process.stdout is not None
        pid, *status = map(int, self._process.stdout.readline().split())
        if not status:
            return pid
        [self._ended[pid]] = status
        return None


@cache
def _forks() -> Forks:
    from _pytest.config import default_plugins

    return Forks(*_PRELOAD, *(f"_pytest.{name}" for name in default_plugins))


def run_python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python to its end in a process that has loaded pytest and redis-py."""
    forks = _forks()
    with tempfile.TemporaryDirectory() as folder:
        pipes = Path(folder, "out"), Path(folder, "err")
        for pipe in pipes:
            os.mkfifo(pipe)
        files = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
        pid = forks.start(words, str(cwd), *pipes, os.environ)
        out, err = (text.decode() for text in _read_all(files, pid))
    status = forks.wait(pid, None)
    assert status is not None
    return subprocess.CompletedProcess(words, status, out, err)


def _read_all(files: list[int], pid: int) -> list[bytes]:
    """Read to the end, which is when this program and all that it started have ended."""
    texts = dict.fromkeys(files, b"")
    unread, end = set(files), time.monotonic() + _SECONDS
    while unread:
        ready = select.select(unread, [], [], max(0, end - time.monotonic()))[0]
        if not ready:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"still running after {_SECONDS} seconds: {texts}")
        for file in ready:
            text = os.read(file, 1 << 16)
            texts[file] += text
            if not text:
                unread.remove(file)
                os.close(file)
    return list(texts.values())


def _serve() -> None:
    del sys.path[0]  # this file's folder, which has modules of common names
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    ends, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    while True:
        ready = select.select([0, ends], [], [])[0]
        if ends in ready:
            os.read(ends, 1 << 16)
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    os.write(1, b"%d %d\n" % (ended[0], os.waitstatus_to_exitcode(ended[1])))
        if 0 in ready:
            line = sys.stdin.buffer.readline()
            if not line:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(ends)
                os.close(woken)
                _become(json.loads(line))
                return
            os.write(1, b"%d\n" % pid)


def _become(request: dict) -> None:
    """Be the program; its end is the interpreter's."""
    files = {
        path: os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        for path in (os.devnull, request["out"], request["err"])
    }
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        os.dup2(files[path], number)
    for file in files.values():
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
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve()
