"""The commands that clients sent to a test server, and the replies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self

from ..protocol.globs import matches

if TYPE_CHECKING:
    from ..console.recorded import RecordedCommand


_FORGOTTEN: Final = "no recording with this ID"


class RecordingError(RuntimeError):
    """A recording no longer has all commands that a caller asks for."""


class Recording:
    """A sequence of all clients' commands since the start of the recording; it can be read while it is on.

    ``rillet.testing.Server.recording`` returns it, for ``with``. Between MULTI and EXEC each command has the reply
    QUEUED, and EXEC has their replies. The write commands of a script are in its ``scripted``. DEBUG is not recorded. A
    blocked command gets its reply once it is served. Several threads may read a recording.

    Args:
        command: runs one command on the server.
        last: the number of commands to keep; older ones are dropped, and ``dropped`` counts them. None keeps 100,000, and
            raises a ``RecordingError`` if commands are read after some were dropped. A recording never holds more than
            64 MB of words and replies.
    """

    def __init__(self, command: Callable[..., Any], last: int | None = None) -> None:
        if last is not None and last < 1:
            raise ValueError("last must be positive")
        self._command = command
        self._last = last
        self._id: bytes | None = None
        self._commands: dict[int, RecordedCommand] = {}
        self._dropped = 0
        self._is_forgotten = False  # whether the server no longer has the recording
        self._lock = threading.Lock()

    def start(self) -> Self:
        """Start recording, and discard the commands of an earlier use."""
        words = () if self._last is None else (b"LAST", b"%d" % self._last)
        self.started(self._command(b"DEBUG", b"RECORD", b"START", *words))
        return self

    @property
    def in_reset(self) -> tuple[bytes, ...]:
        """The options of DEBUG RESET that start a recording with a ``last``; pass the reply to ``started``."""
        assert self._last is not None
        return b"RECORD", b"%d" % self._last

    def started(self, number: int) -> None:
        """Store the recording's ID on the server, and discard the commands of an earlier use."""
        self._commands, self._dropped, self._is_forgotten = {}, 0, False
        self._id = b"%d" % number

    def stop(self) -> None:
        """Stop recording; the commands stay readable."""
        with self._lock:
            self._read(b"STOP")
            self._id = None

    @property
    def is_on(self) -> bool:
        """Whether it was started and not stopped; a server that has ended since is not noticed."""
        return self._id is not None and not self._is_forgotten

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.stop()
        except (RecordingError, OSError):  # the server no longer has it, or has ended
            if kind is None:  # an error of the block matters more
                raise

    # Reading

    def of(
        self, client: str | int | None = None, *, command: str | None = None, key: str | None = None
    ) -> list[RecordedCommand]:
        """Return some of the commands, in order.

        Args:
            client: the name of the client, or the ID of its connection.
            command: a command or subcommand, in any case.
            key: a glob that one of the keys must match.

        Raises:
            RecordingError: commands were dropped, and ``last`` was not given.
        """
        return [
            each
            for each in self
            if (client is None or client in {each.client, each.client_id})
            and (command is None or each.is_a(command))
            and (key is None or any(_matches(key, one) for one in each.keys))
        ]

    def count(
        self, command: str | None = None, *, client: str | int | None = None, key: str | None = None
    ) -> int:
        """Return how many commands ``of`` would return."""
        return len(self.of(client, command=command, key=key))

    @property
    def dropped(self) -> int:
        """The number of commands that were dropped because of the recording's limits."""
        with self._lock:
            self._read(b"READ")
            return self._dropped

    def __iter__(self) -> Iterator[RecordedCommand]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: int) -> RecordedCommand:
        return self._all()[index]

    def __str__(self) -> str:
        """Return one line per command, and one line with the number of dropped commands."""
        dropped = self.dropped
        lines = [f"({dropped} earlier commands were dropped)"] if dropped else []
        return "\n".join([*lines, *map(str, self._commands.values())])

    # The server's side

    def _all(self) -> list[RecordedCommand]:
        with self._lock:
            self._read(b"READ")
            if self._dropped and self._last is None:
                raise RecordingError(f"{self._dropped} commands were dropped: record less, or say last=")
            return list(self._commands.values())

    def _read(self, action: bytes) -> None:
        """Fetch new commands, and refresh those that had no reply yet."""
        if self._id is None:
            return
        known = self._commands
        waiting = (number for number, each in known.items() if each.answered is None)
        since = next(waiting, next(reversed(known), 0) + 1)
        try:
            answer = self._command(b"DEBUG", b"RECORD", action, self._id, b"%d" % since)
        except Exception as error:
            if _FORGOTTEN not in str(error):
                raise
            self._is_forgotten = True
            raise RecordingError("the server was restarted or reset in the middle of the recording") from None
        self._dropped, oldest, found = answer
        from ..console.recorded import command_of  # its classes take 2 ms to create

        known |= {each[0]: command_of(each) for each in found}
        for number in [number for number in known if number < oldest]:
            del known[number]


def _matches(glob: str, key: str) -> bool:
    return matches(glob.encode(errors="surrogateescape"), key.encode(errors="surrogateescape"))
