"""Ports for the servers of tests, such that no two processes of a test run ever share one."""

import atexit
import itertools
import socket
import threading
from collections.abc import Iterator
from functools import cache

# Below the ports that Linux gives to sockets that ask for none (32768 and up): a port that was free a moment ago would
# else be the next one of a socket of another process, which then hears what this test says to its server. A node of a
# cluster listens 10,000 ports higher, too, which is outside of this range and still below those of Linux.
_FIRST = 12_000
_SHARES = 40
_SHARE = 250
_turn = threading.Lock()  # threads of one test start servers at once


@cache
def _share() -> tuple[socket.socket, Iterator[int]]:
    """The ports of this process, in turn without end, and the socket whose name keeps other processes from them."""
    claim = socket.socket(socket.AF_UNIX)
    for number in range(_SHARES):
        try:
            claim.bind(f"\0rillet-test-ports-{number}")  # an abstract name, which ends with the process
        except OSError:
            continue
        atexit.register(claim.close)  # a socket that Python's end finds open is a ResourceWarning
        first = _FIRST + number * _SHARE
        return claim, itertools.cycle(range(first, first + _SHARE))
    claim.close()
    raise RuntimeError(f"{_SHARES} processes run tests on this machine, and have all its ports for tests")


def free_port() -> int:
    """A loopback port where nothing listens, and that no other process of tests gets."""
    with _turn:
        _, ports = _share()
    for port in itertools.islice(ports, _SHARE):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"none of the {_SHARE} ports of this process is free")
