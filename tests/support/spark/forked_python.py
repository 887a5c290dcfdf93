"""The Python of Spark's processes, forked from one that has loaded PySpark and Rillet already.

Spark starts a small program, which hands its files, words and environment to the process that forks, and lives as long as
its fork does.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.forks import Forks

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
forks.sendall(marshal.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))
forks.shutdown(_socket.SHUT_WR)
pid = int(forks.recv(20).split()[0])
_signal.signal(_signal.SIGTERM, lambda *_: os.kill(pid, _signal.SIGTERM))
forks.recv(1)  # the fork has ended
"""


@contextlib.contextmanager
def forked_python(folder: Path) -> Iterator[Path]:
    """Yield a program for PYSPARK_PYTHON, which serves until the end."""
    forks = Forks(
        *_PRELOAD, environment=os.environ | {"PYTHONHASHSEED": "0"}
    )  # as SparkContext has it for its workers
    program = folder / "python"
    program.write_text(_PROGRAM.format(python=sys.executable, address=forks.address), encoding="utf-8")
    program.chmod(0o755)
    yield program
    forks.end()
