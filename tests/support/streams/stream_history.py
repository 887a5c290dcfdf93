"""A stream that remembers everything: what was ever added to it, and every state it can be rolled back to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rillet.pipeline.redis.stream_state import StreamState


@dataclass(frozen=True)
class Version:
    """One state of a key. Entries are their ids; no two entries of a history have the same."""

    entries: tuple[int, ...] = ()
    added: int = 0
    last: int = 0
    max_deleted: int = 0
    groups: int = 0

    @property
    def state(self) -> StreamState:
        return StreamState(
            length=len(self.entries),
            last=self.last,
            first=self.entries[0] if self.entries else None,
            added=self.added,
            max_deleted=self.max_deleted,
            newest=self.entries[-1] if self.entries else None,
            groups=self.groups,
        )

    def add(self, *stream_ids: int) -> Version:
        entries = (*self.entries, *stream_ids)
        return replace(self, entries=entries, added=self.added + len(stream_ids), last=entries[-1])

    def trim(self, length: int) -> Version:
        return replace(self, entries=self.entries[max(len(self.entries) - length, 0) :])

    def delete(self, stream_id: int) -> Version:
        if stream_id not in self.entries:
            return self
        entries = tuple(each for each in self.entries if each != stream_id)
        return replace(self, entries=entries, max_deleted=max(self.max_deleted, stream_id))

    def take_out(self, stream_id: int) -> Version:
        """Like XTRIM ACKED: out of the middle, and `max-deleted-entry-id` stays; it needs a group."""
        return replace(self, entries=tuple(each for each in self.entries if each != stream_id), groups=1)

    # What a reader may ask

    def has(self, stream_id: int) -> bool:
        return stream_id in self.entries

    def count_after(self, stream_id: int) -> int:
        return sum(each > stream_id for each in self.entries)


@dataclass
class History:
    """A key in time; None is a key that is not there. Ids come from a clock that never stands still."""

    now: Version | None = None
    clock: int = 1000
    saved: list[Version | None] = field(default_factory=list)
    # Whether it is still the history that a reader looked at last.
    is_same: bool = True

    def add(self, count: int) -> None:
        if self.now is None:
            # A stream that comes back from before another one of its name: no position remembers both.
            self.saved.clear()
        before = self.now or Version()
        start = max(self.clock, before.last) + 1
        self.clock = start + count
        self.now = before.add(*range(start, start + count))

    def set_id(self, ahead: int) -> None:
        if self.now is not None:
            self.clock = max(self.clock, self.now.last) + ahead
            self.now = replace(self.now, last=self.clock)

    def remove(self, how: str, number: int) -> None:
        if self.now is None:
            return
        if how == "trim":
            self.now = self.now.trim(number)
        elif self.now.entries:
            wanted = self.now.entries[number % len(self.now.entries)]
            self.now = self.now.delete(wanted) if how == "delete" else self.now.take_out(wanted)

    def save(self) -> None:
        self.saved.append(self.now)

    def roll_back(self, number: int) -> None:
        if self.saved:
            # What was saved later is of a time that never was.
            at = number % len(self.saved)
            del self.saved[at + 1 :]
            self.is_same = self.is_same and self.now == self.saved[at]
            self.now = self.saved[at]

    def delete_key(self) -> None:
        self.is_same = self.is_same and self.now is None
        self.now = None
