"""Spare each task a wait of 40 ms.

Spark's JVM sends a task to its Python worker over TCP in two writes: first the program, then the rows or the partition.
Its kernel holds back the second write until the first is acknowledged (Nagle), and the worker's kernel delays the
acknowledgement, hoping for an answer to send with it. The objects of ours in a task are unpickled between the two.

``RILLET_QUICK_ACK=0`` in the environment of executors (``spark.executorEnv.RILLET_QUICK_ACK``) switches it off, for a Spark
whose sockets have TCP_NODELAY; those of 4.2 and 4.3 have not. Unix domain sockets, which Spark can use instead
(``spark.python.unix.domain.socket.enabled``), wait for nothing and are left alone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import Any, Final

from .redis.options import FLAG, Option

SWITCH: Final = Option("RILLET_QUICK_ACK", FLAG, "true", "an environment variable")
_OWN_FILES: Final = Path("/proc/self/fd")
_QUICKACK: Final = getattr(socket, "TCP_QUICKACK", None)  # only Linux has it


class QuickAck:
    """Base of readers and writers: unpickling one acknowledges the received bytes, so that the sender continues."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        acknowledge_now()
        self.__dict__.update(state)


def acknowledge_now() -> int:
    """Acknowledge all received TCP data of this process, if the system allows it; return the number of connections.

    Raises OptionError: the switch is neither on nor off.
    """
    if _QUICKACK is None or not _OWN_FILES.exists():
        return 0
    if not SWITCH.parse(os.environ.get(SWITCH.name) or SWITCH.default):
        return 0
    asked = 0
    for number in [int(each.name) for each in _OWN_FILES.iterdir()]:
        # Files may be closed in between, and not all sockets are TCP.
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
                    asked += 1
    return asked
