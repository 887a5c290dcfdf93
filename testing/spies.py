"""Inspect streams and the history of their entries: wait until a group is idle, assert acknowledgements and deliveries.

The classes that describe them take 15 ms to create and most tests need none, so they are imported on first use.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from .ageing import HasAge
from .control import TakesCommands
from .recording import Recording, RecordingError

if TYPE_CHECKING:
    from ..console.entry_history import History
    from .streams import Group, Stream

POLL_SECONDS: Final = 0.01
_WATCHED: Final = 1000  # commands
_SHOWN: Final = 5


class HasStreams(TakesCommands):
    """Inspection of streams, which works on any Redis."""

    def streams(self) -> list[str]:
        """Return the names of all streams of database 0, sorted."""
        from .streams import text

        names: set[bytes] = set()
        cursor: Any = b"0"
        while True:
            cursor, found = self._command(b"SCAN", cursor, b"COUNT", b"1000", b"TYPE", b"stream")
            names.update(found)
            if cursor == b"0":
                return sorted(map(text, names))

    def stream(self, name: str) -> Stream:
        """Return a stream of database 0 with its entries, groups, consumers and pending entries.

        Raises:
            LookupError: there is no stream of this name.
        """
        import hiredis

        from .streams import stream_of, to_bytes

        try:
            reply = self._command(b"XINFO", b"STREAM", to_bytes(name), b"FULL", b"COUNT", b"0")
        except hiredis.ReplyError as error:
            raise LookupError(f"{name!r}: {error}") from None
        seconds, microseconds = self._command(b"TIME")
        return stream_of(name, reply, int(seconds) * 1000 + int(microseconds) // 1000)

    def wait_until_idle(self, stream: str, group: str, timeout: float = 5.0) -> None:
        """Wait until a group has delivered and acknowledged every entry.

        It blocks the calling thread. If the consumers run in the same event loop, use ``await
        asyncio.to_thread(server.wait_until_idle, "orders", "billing")``.

        Args:
            stream: the key; it and the group may be created during the wait.
            group: the name of the group.
            timeout: seconds of real time, independent of the server's clock.

        Raises:
            TimeoutError: the text lists the pending and the undelivered entries.
        """
        for _ in self._until_idle(stream, group, timeout, time.monotonic):
            time.sleep(POLL_SECONDS)

    def _until_idle(
        self, stream: str, group: str, timeout: float, now: Callable[[], float]
    ) -> Iterator[None]:
        """Yield before each pause of a wait for an idle group; raise TimeoutError after ``timeout`` seconds of ``now``."""
        until = now() + timeout
        while not self._is_idle(stream, group):
            if now() >= until:
                raise TimeoutError(
                    f"{stream!r} is not idle in group {group!r} after {timeout} seconds: "
                    + self._unfinished(stream, group)
                )
            yield

    def assert_acked(self, stream: str, group: str, *ids: str | bytes) -> None:
        """Assert that a group has acknowledged entries; without IDs, all entries of the stream.

        Raises:
            AssertionError: the text says what happened to each entry that is not acknowledged.
            LookupError: the stream or the group does not exist.
        """
        from ..console.entry_history import id_of

        seen = self.stream(stream)
        found = seen.group(group)
        problems = self._unacknowledged(seen, found, [id_of(each) for each in ids])
        if problems:
            raise AssertionError(
                f"not acknowledged in group {group!r} of {stream!r}:\n" + self._explained(stream, problems)
            )

    def _unacknowledged(self, stream: Stream, group: Group, ids: list[str]) -> dict[str, str]:
        """Return the problem of each entry that has one, by ID."""
        from .streams import order_of

        pending = {each.id: each for each in group.pending}
        problems: dict[str, str] = {}
        for entry in ids or [*dict.fromkeys([*pending, *(each.id for each in stream.entries)])]:
            if entry in pending:
                problems[entry] = str(pending[entry])
            elif order_of(entry) > order_of(group.last_delivered_id):
                problems[entry] = f"{entry} was not delivered"
        return problems

    def _is_idle(self, stream: str, group: str) -> bool:
        import hiredis

        from .streams import pairs, to_bytes

        key = to_bytes(stream)
        try:
            groups = self._command(b"XINFO", b"GROUPS", key)
        except hiredis.ReplyError as error:
            if str(error).startswith("ERR no such key"):
                return False
            raise
        found = next((each for each in map(pairs, groups) if each["name"] == to_bytes(group)), None)
        if found is None or found["pending"]:
            return False
        if found["lag"] is not None:
            return not found["lag"]
        # After deletions the server does not know the lag.
        return not self._command(b"XRANGE", key, b"(" + found["last-delivered-id"], b"+", b"COUNT", b"1")

    def _unfinished(self, name: str, group: str) -> str:
        try:
            stream = self.stream(name)
            found = stream.group(group)
        except LookupError as error:
            return str(error)
        return "\n" + self._explained(name, self._unacknowledged(stream, found, []))

    def _explained(self, stream: str, problems: dict[str, str]) -> str:
        del stream
        return _listed(problems.values())


class HasSpies(HasStreams, HasAge):
    """Inspection of what the clients of a test server did."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: Recording | None = None  # the recording that ``watch`` started; None without one
        self._recordings: list[Recording] = []

    def watch(self, last: int = _WATCHED) -> None:
        """Record the last ``last`` commands from now on, across resets and restarts. The pytest fixtures call it."""
        self._end_watch()
        self.watched = Recording(self._command, last).start()

    def watch_from_reset(self) -> None:
        """Start to ``watch`` at the next reset, whose request then starts the recording without another round trip."""
        self.watched = Recording(self._command, _WATCHED)

    def _watch_again(self) -> None:
        """Restart the watch, after a reset or a restart has ended all recordings."""
        if self.watched is not None:
            self.watched.start()

    def _end_watch(self) -> None:
        if self.watched is not None:
            with contextlib.suppress(RecordingError):  # a reset or a restart has ended it
                self.watched.stop()

    def recording(self, *, last: int | None = None) -> Recording:
        """Return a recording of all commands, for ``with``; ``last`` limits it to that many of the latest."""
        made = Recording(self._command, last)
        self._recordings = [*(each for each in self._recordings if each.is_on), made]
        return made

    def history(self, stream: str, id: str | bytes, *, database: int = 0) -> History:  # noqa: A002 - the field's word
        """Return the life of an entry: added, delivered, claimed, acknowledged, given back, deleted, trimmed.

        It is derived from the commands of the oldest recording that is on, or else of the latest recording. In tests with
        a Rillet fixture, a recording is always on.

        Raises:
            RecordingError: nothing was recorded.
        """
        from ..console.entry_history import Lives, id_of

        entry = id_of(id)
        exists = bool(self._entries_of(stream, entry)) if not database else True
        return Lives(self._recorded(), stream, database).history(entry, exists=exists)

    def assert_delivered_once(self, stream: str, group: str) -> None:
        """Assert that a group was delivered each entry of a stream exactly once, according to the recording.

        Claims and re-reads of pending entries count as deliveries, as in the delivery count; claims with JUSTID do not.

        Raises:
            AssertionError: the text shows the lives of the entries that were delivered more than once, or not at all.
            LookupError: the stream or the group does not exist.
            RecordingError: nothing was recorded, or commands were dropped.
        """
        from ..console.entry_history import CLAIMED, DELIVERIES, Lives
        from .streams import order_of

        seen = self.stream(stream)
        found = seen.group(group)
        recording = self._recording()
        if recording.dropped:
            raise RecordingError(f"{recording.dropped} commands were dropped: record with a higher last=")
        lives = Lives(recording, stream)
        problems: dict[str, str] = {}
        for entry in sorted({*lives.by_id, *(each.id for each in seen.entries)}, key=order_of):
            events = lives.by_id[entry].events if entry in lives.by_id else []
            count = sum(
                each.what in DELIVERIES and each.group == group and not (each.what == CLAIMED and each.note)
                for each in events
            )
            if count > 1:
                problems[entry] = f"{entry} was delivered {count} times"
            elif not count and order_of(entry) > order_of(found.last_delivered_id):
                problems[entry] = f"{entry} was not delivered"
        if problems:
            raise AssertionError(
                f"not delivered once in group {group!r} of {stream!r}:\n" + self._explained(stream, problems)
            )

    def _unacknowledged(self, stream: Stream, group: Group, ids: list[str]) -> dict[str, str]:
        from ..console.entry_history import ACKNOWLEDGED, DELIVERIES, Lives

        problems = super()._unacknowledged(stream, group, ids)
        if not self._has_recording:
            return problems
        lives = Lives(self._recorded(), stream.name)
        for entry in ids or [each.id for each in stream.entries]:
            life = lives.by_id.get(entry)
            if entry in problems or life is None:
                continue
            own = [each.what for each in life.events if each.group == group.name]
            if own and ACKNOWLEDGED not in own and own[-1] not in DELIVERIES:
                problems[entry] = f"{entry} is no longer pending, but it was not acknowledged"
        return problems

    def _explained(self, stream: str, problems: dict[str, str]) -> str:
        from ..console.entry_history import Lives

        if not self._has_recording:
            return super()._explained(stream, problems)
        try:
            lives = Lives(self._recorded(), stream)
        except RecordingError as error:
            return f"{super()._explained(stream, problems)}\n  ({error})"
        lines = []
        for entry, problem in problems.items():
            exists = bool(self._entries_of(stream, entry))
            life = str(lives.history(entry, exists=exists)).partition("\n")[2]
            lines.append(problem + (f"\n{life}" if life else ""))
        return _listed(lines)

    @property
    def _has_recording(self) -> bool:
        return self.watched is not None or bool(self._recordings)

    def _recorded(self) -> Iterable[Any]:
        return self._recording().of()

    def _recording(self) -> Recording:
        watched = [] if self.watched is None else [self.watched]
        running = [each for each in (*watched, *self._recordings) if each.is_on]
        if running:
            # The oldest recording covers the most, unless it has dropped commands.
            return next((each for each in running if not each.dropped), running[0])
        if self._recordings:
            return self._recordings[-1]
        raise RecordingError("nothing was recorded: run the code in a block of `with server.recording():`")

    def _entries_of(self, stream: str, entry: str) -> Any:
        from .streams import to_bytes

        return self._command(b"XRANGE", to_bytes(stream), entry.encode(), entry.encode())


def _listed(lines: Iterable[str]) -> str:
    """Return the first few lines, and how many more there are."""
    every = list(lines)
    more = [f"… and {len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return _indented("\n".join([*every[:_SHOWN], *more]))


def _indented(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.splitlines())
