"""A server in a process of its own for inputs that may end it: watched for its life, its log and its memory."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from support.servers import ServerProcess
from support.until import until
from support.wire import ConnectionClosedError, Node, Wire, encode_command, parse

_TROUBLE = ("internal error", "traceback (most recent")
_MOST_MEMORY = 700 << 20
_ANSWERS_WITHIN = 60.0
_LOOK = 0.1  # seconds without a reply after which the server is asked whether more will come
_END = b"the fuzzer's last word"
# What ends or silences a server or the connections to it, or changes who may do what.
HARMFUL = frozenset(
    (
        "shutdown debug monitor psync sync replconf replicaof slaveof failover client|kill client|pause client|reply "
        "config|set config|rewrite acl|setuser acl|deluser acl|load acl|save subscribe psubscribe ssubscribe bgsave "
        "module|load module|loadex cluster|reset auth quit"
    ).split()
)


class Victim:
    """A Rillet for one fuzzer; it is started again where an input ended it.

    Args:
        flags: those of the server, beside what DEBUG needs.
    """

    def __init__(self, *flags: str | int) -> None:
        self.server = ServerProcess("rillet", "--enable-debug-command", "local", *flags)
        self._read = 0  # how much of the log was looked at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.discard()

    def wire(self, protocol: int = 2) -> Wire:
        return Wire(self.server.port, protocol, timeout=_ANSWERS_WITHIN)

    def ready(self) -> Wire:
        """Connect to the server, which is started again if the last input ended it."""
        try:
            with self.wire() as wire:
                assert wire.call("PING").value == b"PONG"
            assert self.memory() < _MOST_MEMORY
        except (
            OSError,
            ConnectionClosedError,
            AssertionError,
        ):  # gone, busy with a script, or full of its memory
            self.server.stop()
            for file in self.server.dir.rglob("*"):
                if file.is_file() and file.name != "server.log":
                    file.unlink()
            self.server.start()
        self._look_at_log()
        return self.wire()

    def session(self, commands: Sequence[Sequence[bytes]]) -> list[Node]:
        """Send commands in one go on a new connection and read all that comes until the last of them is done.

        A command may make the server close the connection or silence it; what came until then is the result.
        """
        with Wire(self.server.port, timeout=_ANSWERS_WITHIN) as wire:
            try:
                wire.send_raw(b"".join(encode_command(*words) for words in (*commands, (b"ECHO", _END))))
            except ConnectionError:
                return []
            return self._read_until(wire, _END)

    def _read_until(self, wire: Wire, end: bytes) -> list[Node]:
        """Read replies until one says `end`, the connection is closed, or nothing more will come."""
        data = b""
        found: list[Node] = []
        wire._socket.settimeout(_LOOK)
        until, is_silent = time.monotonic() + _ANSWERS_WITHIN, False
        while time.monotonic() < until:
            try:
                more = wire._socket.recv(1 << 16)
            except TimeoutError:
                if is_silent:  # and what had come by then was read since
                    return found
                is_silent = self._is_silent(wire)
                continue
            except ConnectionError:
                return found
            if not more:
                return found
            data += more
            until, is_silent = time.monotonic() + _ANSWERS_WITHIN, False
            at = 0
            while (each := parse(data, at)) is not None:
                found.append(each[0])
                at = each[1]
                if each[0].value == end and each[0].kind == "$":
                    return found
            data = data[at:]
        return found

    def _is_silent(self, wire: Wire) -> bool:
        """Whether the client at the other end gets nothing more: it is blocked, or has run its last command, an ECHO."""
        own = b" addr=127.0.0.1:%d " % wire._socket.getsockname()[1]
        with contextlib.suppress(OSError, ConnectionClosedError), self.wire() as other:
            lines = other.call("CLIENT", "LIST").value.splitlines()  # or an error: a script runs
            for line in lines:
                if own in line:
                    fields = dict(word.partition(b"=")[::2] for word in line.split())
                    return b"b" in fields[b"flags"] or (fields[b"cmd"], fields[b"qbuf"]) == (b"echo", b"0")
        return False

    def assert_well(self, what: str = "") -> None:
        """Assert that it lives and answers, that its log shows no bug, and that its memory is bounded."""
        trouble = [line for line in self._look_at_log() if any(word in line.lower() for word in _TROUBLE)]
        try:
            with self.wire() as wire:
                # On a busy machine a script that ends is over the threshold, too.
                until(lambda: not wire.call("PING").value.startswith(b"BUSY"))
                assert wire.call("PING").value == b"PONG", what
        except (OSError, ConnectionClosedError) as error:
            raise AssertionError(f"the server is gone (status {self._status()}): {error} {what}") from error
        assert not trouble, f"{trouble} in the log:\n{self.server.log[-3000:]} {what}"
        assert self.memory() < _MOST_MEMORY, f"{self.memory()} bytes of memory {what}"

    def _status(self) -> int | None:
        """The exit status, for which a process that crashes needs a moment; None while it lives."""
        assert self.server._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.server._process.wait(5)
        return self.server._process.returncode

    def memory(self) -> int:
        """The resident bytes of the process; 0 where the system does not say."""
        if sys.platform != "linux":
            return 0
        return int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1]) * 4096

    def _look_at_log(self) -> list[str]:
        text = self.server.log
        news, self._read = text[self._read :], len(text)
        return news.splitlines()
