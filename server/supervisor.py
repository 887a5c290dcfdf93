"""The supervisor of the process: the shell that started it (``daemonize``), systemd or upstart (``supervised``)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Final

from ..storage import system
from .config.config import Config
from .log import Log

PIDFILE: Final = "/var/run/redis.pid"  # for a daemon without the directive pidfile, as in Redis
_READY: Final = b"\0"
_NO_FORK: Final = (
    "daemonize needs fork, which this system does not have: start the server as a service, or with `start /b`"
)


def supervisor_of(config: Config) -> str:
    """Return the supervisor of the process that ``supervised`` allows: ``systemd``, ``upstart``, or ``no``."""
    asked = config.supervised
    if asked in {"upstart", "auto"} and "UPSTART_JOB" in os.environ:
        return "upstart"
    if asked in {"systemd", "auto"} and "NOTIFY_SOCKET" in os.environ:
        return "systemd"
    return "no"


def notify(supervisor: str, log: Log, state: str) -> None:
    """If ``supervisor`` is systemd, send it ``state``, such as ``READY=1``, through NOTIFY_SOCKET (sd_notify)."""
    if supervisor != "systemd":
        return
    path = os.environ["NOTIFY_SOCKET"]
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.sendto(state.encode(), address)
    except OSError as error:
        log.warning(f"Can't notify systemd: {error.strerror or error}")


class Launch:
    """Tells the program that started this one that clients are served, or why they are not.

    A supervised process stays in the foreground. With ``daemonize``, the first process waits until the second, which
    serves clients, is ready or has failed. The first process of redis-server exits at once, with status 0 even if the
    port is taken.
    """

    def __init__(self, config: Config) -> None:
        self.supervisor = supervisor_of(config)
        # The exit status of a process that has nothing more to do; None in the process that serves clients.
        self.status: int | None = None
        self._pipe: int | None = None
        if self.supervisor == "upstart" and system.HERE.has_fork:
            os.kill(os.getpid(), signal.SIGSTOP)  # upstart waits for it, and sends SIGCONT
        if config.daemonize and self.supervisor == "no":
            self._detach(config)

    def _detach(self, config: Config) -> None:
        if not system.HERE.has_fork:
            print(_NO_FORK, file=sys.stderr)  # noqa: T201 - there is no log yet
            self.status = 1
            return
        config.pidfile = config.pidfile or PIDFILE
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            os.close(writer)
            self.status = _wait(reader)
            return
        os.close(reader)
        self._pipe = writer
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        os.close(nowhere)

    def hear(self, line: str) -> None:
        """Pass a warning of the log to the process that waits for this one (``daemonize``), which shows it to the user."""
        if self._pipe is not None and " # " in line[:50]:
            with contextlib.suppress(OSError):  # that process was killed
                os.write(self._pipe, os.fsencode(line))

    def ready(self) -> None:
        """Let the waiting process exit with status 0; without this call it exits with 1 when this process ends."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, _READY)
            os.close(self._pipe)
            self._pipe = None


def _wait(reader: int) -> int:
    """Return 0 once the serving process is ready; if it ends before, print its warnings to stderr and return 1."""
    said = b""
    while chunk := os.read(reader, 65536):
        said += chunk
        if said.endswith(_READY):
            return 0
    sys.stderr.write(os.fsdecode(said))
    return 1
