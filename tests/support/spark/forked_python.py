"""The Python of Spark's processes, forked from one that has loaded PySpark and Rillet already.

A query starts one or two processes, which take 0.36 seconds of processor time each to load what they need; a fork takes 0.04.
Spark starts a small program, which hands its files, words and environment to the process that forks, and lives as long as
its fork does.
"""

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# The modules of Spark's processes (but they run as __main__) and what they import when they read or write our formats.
_PRELOAD: Final = (
    "pyarrow",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "rillet.pipeline.formats",
    "rillet.pipeline.group.stream_reader",
    "rillet.pipeline.ledger.format",
    "rillet.pipeline.range.stream_reader",
)
# Without the modules socket, signal and json it starts in 14 ms of processor time instead of 24.
_PROGRAM: Final = """\
#!{python} -ISE
import os, sys
if sys.argv[1] != "-m":
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import _signal, _socket, marshal
forks = _socket.socket(_socket.AF_UNIX)
forks.connect({address!r})
files = b"".join(file.to_bytes(4, sys.byteorder) for file in range(3))
forks.sendmsg([b"files"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
forks.sendall(marshal.dumps([sys.argv[2:], dict(os.environ), os.getcwd()]))
forks.shutdown(_socket.SHUT_WR)
pid = int(forks.recv(20))
_signal.signal(_signal.SIGTERM, lambda *_: os.kill(pid, _signal.SIGTERM))
forks.recv(1)  # the fork has ended
"""


@contextlib.contextmanager
def forked_python(folder: Path) -> Iterator[Path]:
    """Yield a program for PYSPARK_PYTHON, which serves until the end."""
    address, program = folder / "python.socket", folder / "python"
    program.write_text(_PROGRAM.format(python=sys.executable, address=str(address)), encoding="utf-8")
    program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, __file__, str(address)],
        stdin=subprocess.PIPE,  # ends with this process
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # as SparkContext has it for its workers
    ) as forks:
        assert forks.stdout is not None
        assert forks.stdout.readline() == b"listening\n"
        yield program
        forks.terminate()  # a fork of this process may have its standard input, too


def _serve(address: str) -> None:
    """Fork for each program that connects, until this process' standard input ends."""
    for name in _PRELOAD:
        importlib.import_module(name)
    gc.freeze()  # a fork's collections would walk through all of it, and copy its pages
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            program, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return _become(program)
            program.close()
    return None


def _become(program: socket.socket) -> None:
    """Run the module that Spark asked for, as `python -m` does; the program waits while this process has its socket."""
    _, files, _, _ = socket.recv_fds(program, len(b"files"), 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with program.makefile("rb") as request:
        words, environment, folder = marshal.load(request)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    path = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*path, *(each for each in sys.path[1:] if each not in path)]
    program.sendall(str(os.getpid()).encode())
    sys.argv = list(words)
    sys.modules.pop(words[0], None)
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
