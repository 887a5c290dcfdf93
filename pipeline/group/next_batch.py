"""Gather the next batch of group mode: our own pending entries, then others' idle entries (claims), then new entries."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..redis import ids
from ..redis.key_names import key_of
from ..redis.stream_state import fetch_states
from ..source.sizes import Pace
from .dead_letters import is_poison, move_poison
from .member import Idle, Member
from .offset import BatchPart, Run, claims_of
from .options import GroupOptions
from .repeated_batch import trial_size

_LONGEST_BETWEEN_CLAIMS: Final = 2.0
_MOST_AT_ONCE: Final = 10_000
_MANY: Final = 8
_IN_A_ROUND_TRIP: Final = 20


@dataclass(frozen=True)
class Limits:
    """The limits of a batch of group mode: rows, and bytes of fields and values (None: no limit).

    A batch exceeds the byte limit by at most one reply.
    """

    rows: int
    size: int | None = None


@dataclass
class Batch:
    """The entries gathered for a batch (``pieces``), with their number (``rows``) and bytes (``size``)."""

    pieces: list[BatchPart] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    # The stream and id of each entry that was deleted before it could be read.
    gone: list[tuple[str, int]] = field(default_factory=list)
    dead: int = 0  # the number of entries moved to the dead letters

    def room(self, limits: Limits) -> int:
        """Return how many more rows the batch may take within the limits."""
        if limits.size is None or not self.rows:
            return limits.rows - self.rows
        if self.size >= limits.size:
            return 0
        # Assume that the next entries are about as long as the previous ones.
        fitting = (limits.size - self.size) * self.rows // max(self.size, 1)
        return min(limits.rows - self.rows, max(fitting, 1))


class Gatherer:
    """Gathers one batch of entries after another. A new one begins with entries that were delivered but are in no batch.

    ``member``: the consumer that reads.
    """

    def __init__(self, member: Member, options: GroupOptions) -> None:
        self.member = member
        self._options = options
        self._recovered: set[str] = set()
        self._look_again = 0.0
        self._turn = 0
        self._pace = Pace(member.connection, options.fetch_size, options.max_bytes_per_partition)
        self._streams: list[str] = []
        self._streams_at: float | None = None

    def streams(self) -> list[str]:
        """Return the streams to read; the streams that match a pattern are listed again every ``discovery_ms``."""
        now = time.monotonic()
        if self._streams_at is None or now - self._streams_at >= self._options.discovery_ms / 1000:
            self._streams = self._options.names(self.member.connection)
            self._streams_at = now
        return list(self._streams)

    def has_any(self, until: dict[str, int] | None) -> bool:
        """Return True if there seem to be pending or new entries; this asks the server without a delivery.

        ``until``: the last id to read, by stream; None: no bound.
        """
        streams = self.streams() if until is None else list(until)
        facts = self.member.all_facts(streams)
        return any(
            name not in facts
            or facts[name][b"pending"]
            or ids.parse_reply(facts[name][b"last-delivered-id"]) < last
            for name, last in self.last_ids(streams).items()
            if last
        )

    def ends(self) -> dict[str, int]:
        """Return the last id of each stream to read; 0-0 for a missing stream."""
        return self.last_ids(self.streams())

    def last_ids(self, streams: Iterable[str]) -> dict[str, int]:
        """Return the last id of each of these streams; 0-0 for a missing stream."""
        states = fetch_states(self.member.connection, streams)
        return {stream: 0 if now is None else now.last for stream, now in states.items()}

    def gather(self, limits: Limits, until: dict[str, int] | None) -> Batch:
        """Return the next batch; empty if there is nothing to read.

        It has our own pending entries, then idle entries of other consumers, then new entries.

        Args:
            limits: of this batch.
            until: the last id to read, by stream, inclusive; None: no bound.
        """
        batch = Batch()
        streams = self.streams() if until is None else list(until)
        with_pending, with_new = self._sieve(streams)
        if self._try_apart(batch, [each for each in streams if each in with_pending], limits):
            return batch
        for stream in streams:
            if stream not in self._recovered:
                if stream in with_pending:
                    self._recover(batch, stream, limits)
                else:
                    self._recovered.add(stream)
        if self._options.claim_min_idle_ms is not None and (
            until is not None or time.monotonic() >= self._look_again
        ):
            self._claim(batch, [each for each in streams if each in with_pending], limits, until)
        self._read_new(batch, [each for each in streams if each in with_new], limits, until)
        return batch

    def _sieve(self, streams: Sequence[str]) -> tuple[set[str], set[str]]:
        """Return the streams that may have pending entries, and the streams that may have new ones.

        With many streams two round trips find them; with few, looking into each stream costs no more.
        """
        if len(streams) < _MANY:
            return set(streams), set(streams)
        facts = self.member.all_facts(streams)
        newest = self.last_ids(streams)  # after the groups: what comes in between is for the next batch
        idle = {name for name, row in facts.items() if row[b"pending"] == 0}
        read = {
            name for name, row in facts.items() if ids.parse_reply(row[b"last-delivered-id"]) >= newest[name]
        }
        return set(streams) - idle, set(streams) - read

    def _try_apart(self, batch: Batch, streams: Sequence[str], limits: Limits) -> bool:
        """Take a part of our pending entries that have one delivery left: one may be poison (see `repeated_batch`).

        Begin with the entries delivered most often, because the poison is among them.
        """
        most = self._options.max_deliveries
        unseen = [stream for stream in streams if stream not in self._recovered]
        while most is not None and unseen:
            due: list[tuple[str, Idle]] = []
            for stream in unseen:
                self._ensure_group(stream)
                found = self.member.own(stream, _MOST_AT_ONCE)
                due += [(stream, each) for each in found if each.deliveries >= most - 1]
            if not due:
                return False
            worst = max(each.deliveries for _, each in due)
            due = [pair for pair in due if pair[1].deliveries == worst]
            tried = due[: min(trial_size(len(due)), limits.rows)]
            for stream in dict.fromkeys(stream for stream, _ in tried):
                self._take_healthy(batch, stream, [each for name, each in tried if name == stream], 0, None)
            if batch.pieces:
                return True  # else all of them were deleted
        return False

    def _recover(self, batch: Batch, stream: str, limits: Limits) -> None:
        """Take our pending entries that are in no batch: an earlier run ended between delivery and Spark's log."""
        self._ensure_group(stream)
        # It was a batch before and returns unchanged; its bytes only reduce the room for further entries.
        room = min(limits.rows - batch.rows, _MOST_AT_ONCE)
        if room <= 0:
            return
        found = self.member.own(stream, room)
        self._take(batch, stream, found, 0, self._weigh(limits))
        if len(found) < room:
            self._recovered.add(stream)

    def _ensure_group(self, stream: str) -> None:
        """A stream that the pattern found later gets its group when it is first seen."""
        if self._options.create_group and self._options.pattern is not None:
            self.member.create_groups({stream: "0"})

    def _claim(
        self, batch: Batch, streams: Sequence[str], limits: Limits, until: dict[str, int] | None
    ) -> None:
        least = self._options.claim_min_idle_ms
        assert least is not None
        more = False
        for stream in streams:
            room = min(batch.room(limits), _MOST_AT_ONCE)
            if room <= 0:
                break
            found = self.member.idle(stream, least, room)
            more = more or len(found) == room
            if until is not None:
                found = [each for each in found if each.stream_id <= until[stream]]
            weigh = self._weigh(limits)
            while found and (room := batch.room(limits)) > 0:
                page = found[: min(room, weigh or room)]
                self._take(batch, stream, page, least, weigh)
                found = found[len(page) :]
        more = more or batch.room(limits) <= 0
        wait = 0.0 if more else min(least / 2000, _LONGEST_BETWEEN_CLAIMS)
        self._look_again = time.monotonic() + wait

    def _weigh(self, limits: Limits) -> int | None:
        """Return the number of entries per reply if their size matters, else None."""
        return None if limits.size is None else self._options.fetch_size

    def _take(
        self, batch: Batch, stream: str, found: Sequence[Idle], least_idle_ms: int, weigh: int | None
    ) -> None:
        most = self._options.max_deliveries
        poison = [each for each in found if is_poison(each, most)]
        healthy = [each for each in found if not is_poison(each, most)]
        self._take_healthy(batch, stream, healthy, least_idle_ms, weigh)
        if poison:
            moved, gone = move_poison(self.member, self._options, stream, poison, least_idle_ms)
            batch.dead += moved
            batch.gone += [(stream, each) for each in gone]

    def _take_healthy(
        self, batch: Batch, stream: str, healthy: Sequence[Idle], least_idle_ms: int, weigh: int | None
    ) -> None:
        taken = self.member.take(stream, healthy, least_idle_ms, weigh=weigh)
        batch.gone += [(stream, each) for each in taken.gone]
        claims = claims_of(
            stream,
            [(each.stream_id, each.owner, each.deliveries) for each in taken.ours],
            self._options.fetch_size,
        )
        batch.pieces += claims
        batch.rows += sum(claim.count for claim in claims)
        batch.size += taken.size

    def _read_new(
        self, batch: Batch, streams: Sequence[str], limits: Limits, until: dict[str, int] | None
    ) -> None:
        """Read the streams in turn, one reply each, until all are empty or the batch is full."""
        waiting = deque(streams)
        waiting.rotate(-self._turn)
        self._turn += 1
        while waiting:
            room = min(batch.room(limits), self._pace.count)
            if room <= 0:
                return
            # With a byte limit, each reply shows how many bytes are left.
            at_once = 1 if limits.size is not None else min(batch.room(limits) // room, _IN_A_ROUND_TRIP)
            asked: dict[str, int] = {}
            for stream in [waiting.popleft() for _ in range(min(at_once, len(waiting)))]:
                unread = room if until is None else self._unread(stream, until[stream], room)
                if unread:
                    asked[stream] = unread
            delivered = self._delivered(asked, batch, limits)
            self._pace.saw(sum(run.count for run, _ in delivered.values() if run is not None))
            for stream, (run, size) in delivered.items():
                if run is not None:
                    batch.pieces.append(run)
                    batch.rows += run.count
                    batch.size += size
                    # A reply that ended at the byte limit does not show whether more entries follow.
                    if run.count == asked[stream] or limits.size is not None:
                        waiting.append(stream)

    def _delivered(
        self, asked: dict[str, int], batch: Batch, limits: Limits
    ) -> dict[str, tuple[Run | None, int]]:
        if limits.size is None:
            return self.member.read_new(asked)
        left = limits.size - batch.size
        return {stream: self.member.read_new_within(stream, most, left) for stream, most in asked.items()}

    def _unread(self, stream: str, end: int, most: int) -> int:
        """Return how many entries up to an id are new, if that matters. Other consumers may take some of them first."""
        delivered = self.member.last_delivered(stream)
        if delivered >= end:
            return 0
        if self.last_ids([stream])[stream] == end:
            return most
        # The stream has grown: count the entries that existed before.
        entries = self.member.connection.call(
            "XRANGE", key_of(stream), f"({ids.text(delivered)}", ids.text(end), "COUNT", most
        )
        return len(entries)
