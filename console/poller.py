"""One poller for all pages: rounds over all streams, and details for the open pages, within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from redis.exceptions import NoPermissionError, RedisError

from . import replies, timeline
from .connection import Command, Found_co, GoneError, Link, Subject, command
from .model import ServerFacts, Stream
from .names import plain
from .pending_maxima import Backlogs
from .samples import SERIES, Key, Sample, Samples, rate

TICK: Final = 1.0  # seconds between two reads of the watched subjects
UNWATCHED: Final = 10.0  # seconds between two rounds while no page is open
SHARE: Final = 20  # a round may take this part of the time: 5 %
BATCH: Final = 200  # streams in one pipeline, so that other clients of the server come between
MOST_STREAMS: Final = 2_000
SCANS: Final = 10  # SCAN calls a round
SCAN_COUNT: Final = 1_000
WEIGHED: Final = 50  # streams a round whose memory is measured
HEAVY: Final = 65_536  # bytes of the entries in XINFO STREAM from which on it is asked less often
HEAVY_ROUNDS: Final = 30
FAILURES: Final = 1_000  # subjects of which the last logged failure is remembered
ASKED: Final = ("XNACK", "XACKDEL", "XDELEX")  # commands that not every version knows

LOG: Final = logging.getLogger(__name__)

Item = TypeVar("Item")


class UnreadableError(Exception):
    """The console failed to read something because of an error in the console itself; its log has the details."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A server and its streams in the last round."""

    facts: ServerFacts | None = None  # None before the first round
    streams: dict[bytes, Stream] = field(default_factory=dict)
    keys: int = 0
    now: int = 0
    gone: str = ""  # why the server cannot be reached; empty while it can
    gone_since: float = 0.0  # seconds by the monotonic clock
    sweeping: bool = True  # whether the first SCAN of all keys is still running
    left_out: bool = False  # the number of streams beyond ``MOST_STREAMS``
    taken: float = 0.0  # seconds that the round took
    # Of these, seconds for PELs that were read for the first time; they do not lengthen the pause.
    first_look: float = 0.0
    read: float = 0.0  # the time of the round, seconds by the monotonic clock

    def aged(self, idle: int | None) -> int | None:
        """Return an idle time of the round (milliseconds) plus the time since then.

        Of a Rillet with debug commands it stays the same, because its clock may be stopped.
        """
        if idle is None or self.gone or (self.facts is not None and self.facts.debug):
            return idle
        return idle + int((time.monotonic() - self.read) * 1_000)


class Poller:
    """Reads a server for all pages.

    Args:
        tick: seconds between two reads of the watched subjects.
        record: whether to start a recording on each server found at the address, if it is a Rillet with debug
            commands.
    """

    def __init__(self, link: Link, tick: float = TICK, *, record: bool = False) -> None:
        self.link = link
        self._record = record
        self.overview = Overview()
        # For streams ``(seconds, length, added, delivered)``, for groups ``(seconds, lag, pending, delivered)``.
        self.samples = Samples()
        self._tick = tick
        self._watched: Counter[Subject[Any]] = Counter()
        self._details: dict[Subject[Any], tuple[float, Any]] = {}
        self._due: dict[Subject[Any], float] = {}  # the next read of subjects that took long
        self._reading: dict[Subject[Any], asyncio.Task[Any]] = {}
        self._logged: dict[Subject[Any] | None, str] = {}  # the last failure of each; of the rounds: None
        self._ticked = asyncio.Event()
        self._viewers = 0
        self._hurry = asyncio.Event()
        # The current SCAN of all keys, and its results so far.
        self._cursor = b"0"
        self._found: set[bytes] = set()
        self._keys: dict[bytes, None] = {}
        self._heavy: dict[bytes, int] = {}
        self._last: dict[bytes, Sample] = {}
        self._drawn: set[Key] = set()
        self._backlogs = Backlogs()
        self.jobs: dict[str, Any] = {}  # the jobs of console/jobs.py, where their pages find them
        self._turn = 0
        self._last_round = -1000.0
        self._stopped = False
        self._run_id = b""
        self._known: frozenset[str] = frozenset()
        self._debug = False

    async def run(self) -> None:
        """Poll until ``stop`` or a cancellation. If the server is lost, try again at each tick.

        A round that fails for a reason of the console's own counts as a loss, so that pages do not silently show old
        data.
        """
        due = 0.0
        while not self._stopped:
            self._hurry.clear()
            try:
                if time.monotonic() >= due or self.overview.gone:
                    await self.round()
                    pause = max(
                        self._tick,
                        SHARE * (self.overview.taken - self.overview.first_look),
                        0 if self._viewers else UNWATCHED,
                    )
                    due = time.monotonic() + pause - self._tick / 2
                await self._read_watched()
            except GoneError as error:
                self._lose(str(error))
            except Exception as error:  # noqa: BLE001 - logged, shown, and tried again
                self._lose(f"the console cannot read it: {self._log(None, error)}")
            self.release()
            # Not wait_for: in Python 3.11 it may swallow a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._tick):
                    await self._hurry.wait()
                    due = 0.0

    async def freshen(self) -> None:
        """Wait up to five seconds for a new round if the last one is too old: no page may have been open until now."""
        if self.overview.gone or time.monotonic() - self._last_round < max(
            2 * self._tick, SHARE * (self.overview.taken - self.overview.first_look)
        ):
            return
        self._hurry.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.ticked()

    def stop(self) -> None:
        """End ``run`` at the end of its tick, and wake all that wait in ``ticked``."""
        self._stopped = True
        self._hurry.set()
        self.release()

    def changed(self) -> None:
        """Read everything again now, because an action changed data."""
        self._details.clear()
        self._hurry.set()

    def release(self) -> None:
        """Wake all that wait in ``ticked``."""
        ticked, self._ticked = self._ticked, asyncio.Event()
        ticked.set()

    async def ticked(self) -> None:
        """Wait for the end of the current tick, in which all watched subjects are read, or for ``release``."""
        await self._ticked.wait()

    @contextlib.asynccontextmanager
    async def viewing(self, subjects: Iterable[Subject[Any]]) -> AsyncIterator[None]:
        """Keep reading these subjects while a page shows them."""
        held = list(subjects)
        if not self._viewers:
            self._hurry.set()
        self._viewers += 1
        self._watched.update(held)
        try:
            yield
        finally:
            self._viewers -= 1
            self._watched.subtract(held)
            self._watched += Counter()  # drops those at 0

    async def data_of(self, subject: Subject[Found_co], *, fresh: bool = False) -> Found_co:
        """Return a subject's data: of the last read if that is recent and not ``fresh``, else of a new read.

        Raises:
            GoneError: the server cannot be reached.
            RedisError: the server's error reply.
            UnreadableError: reading it failed for another reason.
        """
        if len(self._drawn) < SERIES:
            self._drawn.update(subject.series)
        known = self._details.get(subject)
        at = time.monotonic()
        if (
            known is not None
            and not fresh
            and (at - known[0] < 2 * self._tick or at < self._due.get(subject, 0))
        ):
            found: Found_co = known[1]
            return found
        return await self._read(subject)

    async def _read(self, subject: Subject[Found_co]) -> Found_co:
        task = self._reading.get(subject)
        if task is None:
            task = self._reading[subject] = asyncio.ensure_future(subject.read(self.link))
            task.add_done_callback(lambda _: self._reading.pop(subject, None))
        began = time.monotonic()
        try:
            found: Found_co = await asyncio.shield(task)
        except (GoneError, RedisError):
            raise
        except Exception as error:
            raise UnreadableError(f"The console cannot read this: {self._log(subject, error)}") from error
        self._logged.pop(subject, None)
        at = time.monotonic()
        self._details[subject] = (at, found)
        self._due[subject] = at + min(UNWATCHED, SHARE * (at - began)) - self._tick
        return found

    async def _read_watched(self) -> None:
        for subject in list(self._watched):
            if subject in self._details and time.monotonic() < self._due.get(subject, 0):
                continue
            try:
                await self._read(subject)
            except (RedisError, UnreadableError):  # a page with this subject shows the error
                self._details.pop(subject, None)
        for subject in [one for one in self._details if one not in self._watched]:
            if time.monotonic() - self._details[subject][0] > 10:
                del self._details[subject]
                self._due.pop(subject, None)

    def _log(self, what: Subject[Any] | None, error: Exception) -> str:
        """Log a failure with its traceback, but once while it stays the same; return it as one line."""
        said = f"{type(error).__name__}: {plain(str(error))[:200]}"
        if self._logged.get(what) != said:
            while len(self._logged) >= FAILURES:
                del self._logged[next(iter(self._logged))]
            self._logged[what] = said
            about = "a round" if what is None else type(what).__name__
            LOG.error("The console could not read: %s failed", about, exc_info=error)
        return said

    def _lose(self, why: str) -> None:
        since = self.overview.gone_since if self.overview.gone else time.monotonic()
        self.overview = replace(self.overview, gone=why, gone_since=since)
        self._details.clear()
        self._due.clear()

    async def check(self) -> None:
        """Send the least that a round of reading needs, to see whether rounds will work.

        Raises GoneError: they will not.
        """
        keys = (await self.link.send([command("SCAN", 0, "COUNT", 1, "TYPE", "stream")]))[0]
        if isinstance(keys, RedisError):
            raise GoneError(str(keys))

    async def round(self) -> None:
        """Read all streams and their groups. Raises GoneError: the server cannot be reached."""
        started = time.monotonic()
        facts, now, keys = await self._server()
        read = time.monotonic()
        await self._sweep()
        wanted = list(self._keys)[:MOST_STREAMS]
        streams: dict[bytes, Stream] = {}
        for at in range(0, len(wanted), BATCH):
            for stream in await self._streams(wanted[at : at + BATCH]):
                streams[stream.key] = stream
        streams = await self._backlogs.read(self.link, streams, now)
        streams = await self._weigh(streams)
        self._turn += 1
        self._last_round = time.monotonic()
        streams = self._remember(streams)
        self.overview = Overview(
            facts,
            streams,
            keys,
            now,
            sweeping=self._cursor != b"0",
            left_out=len(self._keys) > MOST_STREAMS,
            taken=time.monotonic() - started,
            first_look=self._backlogs.first_look,
            read=read,
        )

    async def _server(self) -> tuple[ServerFacts, int, int]:
        got = await self.link.send([command("INFO"), command("TIME"), command("DBSIZE")])
        for reply in got[:2]:
            if isinstance(reply, RedisError) and not isinstance(reply, NoPermissionError):
                raise GoneError(str(reply))  # NOAUTH, LOADING: nothing can be shown
        about = b"" if isinstance(got[0], RedisError) else got[0]
        run_id = next((line for line in about.splitlines() if line.startswith(b"run_id:")), b"")
        known = self.overview.facts
        if known is None or run_id != self._run_id:
            # Another server answers here, or the same one restarted: forget everything.
            self.samples.clear()
            self._backlogs.forget()
            self._keys.clear()
            self._found.clear()
            self._last.clear()
            self._cursor = b"0"
            self._known, self._debug = await self._abilities()
            self._run_id = run_id
        keys = 0 if isinstance(got[2], RedisError) else int(got[2])
        return replies.facts(about, self._known, debug=self._debug), replies.now(got[1]), keys

    async def _abilities(self) -> tuple[frozenset[str], bool]:
        self.link.controls = False
        self.link.tape.forget()
        self.link.written.clear()
        known, clock = await self.link.send(
            [command("COMMAND", "INFO", *ASKED), command("DEBUG", "CLOCK", "NOW")]
        )
        names = frozenset(item[0].decode().upper() for item in replies.listed(known) if item)
        debug = not isinstance(clock, RedisError)
        # After a failover, connections through a sentinel must end like all others.
        self.link.controls = debug and self.link.is_direct
        if debug and self._record:
            await timeline.begin(self.link.actor)
        return names, debug

    async def _sweep(self) -> None:
        """Continue the SCAN; a complete one drops the keys that it did not find."""
        for _ in range(SCANS):
            reply = (
                await self.link.send([command("SCAN", self._cursor, "COUNT", SCAN_COUNT, "TYPE", "stream")])
            )[0]
            if isinstance(reply, RedisError):
                raise GoneError(str(reply))
            self._cursor, keys = bytes(reply[0]), reply[1]
            self._found.update(keys)
            self._keys.update(dict.fromkeys(keys))
            if self._cursor == b"0":
                self._keys = {key: None for key in self._keys if key in self._found}
                self._found = set()
                return

    async def _streams(self, keys: list[bytes]) -> list[Stream]:
        asked: list[Command] = []
        for key in keys:
            light = self._heavy.get(key, 0) > self._turn
            asked += [
                command("XLEN", key) if light else command("XINFO", "STREAM", key),
                command("XINFO", "GROUPS", key),
            ]
        got = await self.link.send(asked)
        found = []
        for key, about, groups in zip(keys, got[::2], got[1::2], strict=True):
            stream = self._stream(key, about, groups)
            if stream is None:
                self._keys.pop(key, None)
            else:
                found.append(stream)
        return found

    def _stream(self, key: bytes, about: Any, groups: Any) -> Stream | None:
        error = next((str(reply) for reply in (about, groups) if isinstance(reply, RedisError)), "")
        before = self.overview.streams.get(key)
        if error:
            gone = "no such key" in error.lower() or "WRONGTYPE" in error or "wrong kind" in error
            return None if gone else Stream(key, 0, gone=error)
        kept = before or Stream(key, 0)
        if isinstance(about, int):
            return replace(kept, length=about, groups=replies.groups(groups, kept.groups))
        said = replies.pairs(about)
        size = sum(
            len(word)
            for entry in (said.get("first-entry"), said.get("last-entry"))
            if entry
            for word in entry[1] or ()
        )
        if size > HEAVY:
            self._heavy[key] = self._turn + HEAVY_ROUNDS
        first = said.get("first-entry")
        return Stream(
            key,
            said["length"],
            said["last-generated-id"].decode(),
            first[0].decode() if first else "",
            said.get("entries-added"),
            kept.memory,
            replies.groups(groups, kept.groups),
        )

    async def _weigh(self, streams: dict[bytes, Stream]) -> dict[bytes, Stream]:
        fresh = [key for key, stream in streams.items() if stream.memory is None]
        chosen = fresh[:WEIGHED] or _turns(list(streams), self._turn, WEIGHED)
        got = await self.link.send([command("MEMORY", "USAGE", key) for key in chosen])
        for key, reply in zip(chosen, got, strict=True):
            if isinstance(reply, int):
                streams[key] = replace(streams[key], memory=reply)
        return streams

    def _remember(self, streams: dict[bytes, Stream]) -> dict[bytes, Stream]:
        """Add a sample to each series; if there are too many, only to the series that pages show."""
        at = time.monotonic()
        all_of_them = len(streams) + sum(len(stream.groups) for stream in streams.values()) <= SERIES
        found: dict[bytes, Stream] = {}
        samples: dict[bytes, Sample] = {}
        for key, stream in streams.items():
            read = [group.entries_read for group in stream.groups if group.entries_read is not None]
            sample = samples[key] = (at, stream.length, stream.added, sum(read) if read else None)
            if all_of_them or (key,) in self._drawn:
                self.samples.add((key,), sample)
            for group in stream.groups:
                if all_of_them or (key, group.name) in self._drawn:
                    self.samples.add((key, group.name), (at, group.lag, group.pending, group.entries_read))
            last = self._last.get(key)
            found[key] = replace(stream, rate_in=rate(last, sample, 2), rate_out=rate(last, sample, 3))
        self._last = samples
        return found


def _turns(items: list[Item], turn: int, most: int) -> list[Item]:
    if len(items) <= most:
        return items
    start = turn * most % len(items)
    return (items + items)[start : start + most]
