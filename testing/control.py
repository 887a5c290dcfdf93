"""The connection over which a test server is controlled."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

CONTROL_SECONDS: Final = 30


class ControlError(ConnectionError):
    """The server cannot be controlled; the text says why."""


class TakesCommands(ABC):
    """A server to which a test sends commands of its own, besides those of its clients."""

    @abstractmethod
    def _command(self, *words: bytes) -> Any:
        """Run one command.

        Raises:
            hiredis.ReplyError: the reply is an error.
        """


class Control:
    """The connection over which a test controls its server, from the start to the end.

    ``DEBUG CONTROL`` hides it: CLIENT LIST and CLIENT KILL do not find it, and neither a rule of the ACL, a new
    password nor CLIENT PAUSE shuts it out. Any thread may use it.

    Args:
        password: the password to log in with; None: do not log in.
        username: the user that the password belongs to; None: ``default``.
        hidden: send ``DEBUG CONTROL``; otherwise the server treats the connection as any client.
        connect: opens the socket, with a timeout in seconds; then ``host`` only appears in errors.
        state: describes what the server is doing, for the error when it does not answer.

    Raises ControlError: the server cannot be reached, or refuses the login.
    """

    def __init__(
        self,
        host: str,
        port: int,
        password: str | None,
        *,
        username: str | None = None,
        hidden: bool = True,
        connect: Callable[[float], socket.socket] | None = None,
        state: Callable[[], str] = str,
    ) -> None:
        import hiredis

        self._owner = os.getpid()
        self._reader = hiredis.Reader()
        self._lock = threading.Lock()
        self._state = state
        try:
            self._socket = (
                socket.create_connection((host, port), timeout=CONTROL_SECONDS)
                if connect is None
                else connect(CONTROL_SECONDS)
            )
        except TimeoutError as error:
            raise ControlError(
                f"The server has not answered a new connection in {CONTROL_SECONDS:g} seconds. {self._state()}"
            ) from error
        except OSError as error:
            place = f"{host}:{port}" if connect is None else host
            raise ControlError(f"The server at {place} cannot be reached: {error}") from error
        try:
            if password is not None:
                self.run(b"AUTH", *(() if username is None else (username.encode(),)), password.encode())
            # If debug commands are disabled, each later command will say so.
            if hidden:
                with contextlib.suppress(hiredis.ReplyError):
                    self.run(b"DEBUG", b"CONTROL")
        except hiredis.ReplyError as error:
            self.close()
            raise ControlError(f"The server refuses to be controlled: {error}") from error
        except BaseException:
            self.close()
            raise

    def run(self, *words: bytes) -> Any:
        """Run one command.

        Returns:
            The reply as hiredis parses it.

        Raises:
            hiredis.ReplyError: the reply is an error.
            ControlError: the connection broke; the command may have run.
        """
        reply = self.run_all([words])[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run_all(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Run several commands in one pipeline; return their replies, with errors as exceptions.

        Raises ControlError: the connection broke; each command may have run.
        """
        with self._lock:
            try:
                self._socket.sendall(b"".join(encode(*words) for words in commands))
                return [self._read() for _ in commands]
            except BaseException as error:
                if not isinstance(error, ConnectionError):
                    self.close()  # interrupted: a later command would read the outstanding replies
                if isinstance(error, TimeoutError):
                    name = commands[0][0].decode()
                    raise ControlError(
                        f"The server has not answered {name} in {CONTROL_SECONDS:g} seconds. {self._state()}"
                    ) from error
                if isinstance(error, OSError):
                    raise ControlError(f"The control connection broke: {error}") from error
                raise

    def _read(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def reset(self, *options: bytes) -> Any:
        """Run DEBUG RESET; if a slow script is running, kill it first.

        Returns:
            Its reply.

        Raises:
            hiredis.ReplyError: the server could not reset everything, or its script cannot be killed.
            ControlError: the connection broke.
        """
        import hiredis

        while True:
            try:
                return self.run(b"DEBUG", b"RESET", *options)
            except hiredis.ReplyError as error:
                if not str(error).startswith("BUSY"):
                    raise
            self._kill_script()

    def _kill_script(self) -> None:
        import hiredis

        for kind in (b"SCRIPT", b"FUNCTION"):
            try:
                self.run(kind, b"KILL")
            except hiredis.ReplyError as error:
                # NOTBUSY: it ended by itself. BUSY: a function runs, or a script.
                if not str(error).startswith(("NOTBUSY", "BUSY")):
                    raise

    def server_has_ended(self) -> bool:
        """Return True if the server runs no more commands.

        It sends PING, because a stopping server does not close all connections at once: another client may see its end
        before this connection is closed. A server that does not answer in time has not ended.
        """
        import hiredis

        if not self.is_open:
            return False
        try:
            self.run(b"PING")
        except hiredis.ReplyError:
            return False
        except ControlError:
            return self.is_open  # `run_all` closes it after a timeout
        return False

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the connection."""
        with self._lock:
            if not self.is_open:
                return False
            self._socket.settimeout(0)
            try:
                return self._socket.recv(1, socket.MSG_PEEK) == b""
            except BlockingIOError:
                return False
            except OSError:
                return True
            finally:
                self._socket.settimeout(CONTROL_SECONDS)

    @property
    def is_open(self) -> bool:
        """Whether this process can still use the connection.

        It cannot if this side has closed it (at the end, or after an interrupted command), or if it belongs
        to a parent process.
        """
        return self._socket.fileno() >= 0 and self._owner == os.getpid()

    def close(self) -> None:
        """Close the control connection."""
        self._socket.close()


def encode(*words: bytes) -> bytes:
    """Encode a command as a RESP array."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
