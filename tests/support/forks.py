"""Python programs in processes that are forked from one which has loaded some modules already.

pytest with one test of a user takes 0.54 seconds of processor time, and 0.22 after a fork from a process with pytest and
redis-py: Rillet and the plugins are loaded by the program itself, because that they can be is a part of what is tested. A
process of Spark takes 0.36 seconds to load what it needs, and a fork 0.04; a server, of which the tests start some
thousand, 0.4 and 0.03.

A program's files, words, environment and folder go through a UNIX socket, by which its process ID and its status come back.
"""

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
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
    """A process that has loaded some modules and forks for each program; it ends with this process, or by `end`."""

    def __init__(self, *preload: str, environment: Mapping[str, str] = os.environ) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="rillet-forks-")
        self.address = f"{self.folder.name}/socket"
        command = [sys.executable, __file__, self.address, *preload]
        # Its standard input ends with this process.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment)
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"
        atexit.register(self.end)

    def end(self) -> None:
        atexit.unregister(self.end)
        with self._process:
            self._process.terminate()  # a fork of this process may have its standard input, too
        self.folder.cleanup()

    def start(
        self,
        words: Sequence[str],
        folder: str,
        out: int,
        err: int,
        environment: Mapping[str, str] = os.environ,
    ) -> "Program":
        """Run ``python WORDS…`` with open files for its output.

        The words are a file, ``-c PROGRAM`` or ``-m MODULE``, after ``-W error`` or not, and their arguments.
        """
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        with open(os.devnull) as nothing:  # noqa: PTH123
            socket.send_fds(connection, [b"files"], [nothing.fileno(), out, err])
        connection.sendall(marshal.dumps([list(words), dict(environment), folder]))
        connection.shutdown(socket.SHUT_WR)
        return Program(connection)


class Program:
    """A program that was started; has what the tests use of ``subprocess.Popen``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"program {self.pid}", timeout or 0)
            with self._connection, self._answers:
                self.returncode = int(self._answers.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _forks() -> Forks:
    from _pytest.config import default_plugins

    return Forks(*_PRELOAD, *(f"_pytest.{name}" for name in default_plugins))


def run_python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python to its end in a process that has loaded pytest and redis-py."""
    forks = _forks()
    ours, its = zip(os.pipe(), os.pipe(), strict=True)
    program = forks.start(words, str(cwd), *its)
    for file in its:
        os.close(file)
    out, err = (text.decode() for text in _read_all(ours, program.pid))
    return subprocess.CompletedProcess(words, program.wait(), out, err)


def _read_all(files: Sequence[int], pid: int) -> list[bytes]:
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


def _serve(address: str, *preload: str) -> None:
    """Fork for each program that connects, until this process' standard input ends."""
    del sys.path[0]  # this file's folder, which has modules of common names
    for name in preload:
        importlib.import_module(name)
    gc.freeze()  # a fork's collections would walk through all of it, and copy its pages
    ends, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    programs: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("listening", flush=True)  # noqa: T201
        while sys.stdin not in (ready := select.select([sys.stdin, listener, ends], [], [])[0]):
            if ends in ready:
                os.read(ends, 1 << 16)
                while programs and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    with programs.pop(ended[0]) as program, contextlib.suppress(OSError):  # nobody waits
                        program.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
            if listener in ready:
                program, _ = listener.accept()
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(ends)
                    os.close(woken)
                    for each in (listener, *programs.values()):
                        each.close()
                    return _become(program)
                programs[pid] = program
                with contextlib.suppress(OSError):
                    program.sendall(b"%d\n" % pid)
    return None


def _become(program: socket.socket) -> None:
    """Be the program; its end is the interpreter's."""
    _, files, _, _ = socket.recv_fds(program, len(b"files"), 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with program, program.makefile("rb") as request:
        words, environment, folder = marshal.load(request)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    path = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*path, *(each for each in sys.path if each not in path)]
    if words[0] == "-W":
        sys.warnoptions.append(words[1])
        warnings.simplefilter(words[1])
        words = words[2:]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    elif words[0] == "-m":
        sys.argv = words[1:]
        if not hasattr(sys.modules.get(words[1]), "__path__"):
            sys.modules.pop(words[1], None)  # it was loaded before, and runs as __main__
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
