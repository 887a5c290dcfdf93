"""Replay the rows of a ledger into spans: which consumer held which entry from when to when.

A row says what one record says. Whether an XCLAIM moved an entry or found its message gone, which entries a trim
removed, and which PEL a deletion changed, depends on all earlier rows. ``Replay`` takes rows in order, keeps the state
that a server would keep, and returns *spans*: one for each time that a consumer held an entry. One replay must get all
rows of a key, of the keys it was copied or renamed from and to, and of whole databases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..schema import Span
from ..spelling import id_number

Row = Sequence[int | str | None]  # in the order of schema.NAMES
Position = tuple[int, int]  # file_seq, ordinal

_FATAL_COUNT: Final = (1 << 63) - 1


class _Group:
    """A consumer group: its pending entries, and its last delivered id."""

    __slots__ = ("last", "pending")

    def __init__(self, last: int) -> None:
        self.last = last
        self.pending: dict[str, Span] = {}


class _Stream:
    """A stream: its entries and its groups."""

    __slots__ = ("groups", "last", "live", "order")

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.order: deque[str] = deque()  # the entries as they were added; those deleted since may linger
        self.last = 0
        self.groups: dict[str, _Group] = {}

    def add(self, entry_id: str) -> None:
        self.live.add(entry_id)
        self.order.append(entry_id)
        self.last = id_number(entry_id)

    def is_needed(self, entry_id: str) -> bool:
        number = id_number(entry_id)
        return any(group.last < number or entry_id in group.pending for group in self.groups.values())

    def trimmed(self, most: int | None, lowest: str | None, policy: str | None) -> list[str]:
        """Trim the stream to ``most`` entries or from the id ``lowest`` on, and return the removed ids."""
        gone: list[str] = []
        order, live = self.order, self.live
        stays: list[str] = []
        limit = None if lowest is None else id_number(lowest)
        while order and (most is None or len(live) > most):
            entry_id = order[0]
            if entry_id not in live:
                order.popleft()
                continue
            if limit is not None and id_number(entry_id) >= limit:
                break
            order.popleft()
            if policy == "ACKED" and self.is_needed(entry_id):
                stays.append(entry_id)
                continue
            live.discard(entry_id)
            gone.append(entry_id)
        order.extendleft(reversed(stays))
        return gone


class Replay:
    """Keeps the state that the server had after each row of a ledger, and derives spans from it.

    ``feed`` returns the spans that a row ends; ``rest`` yields the ones that are still open.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[int, str], _Stream] = {}
        self._ended: list[Span] = []
        # The current row.
        self._position: Position = (0, 0)
        self._clock: int | None = None
        self._actions = {
            "delivered": self._deliver,
            "claimed": self._deliver,
            "acked": self._acknowledge,
            "added": self._added,
            "trimmed": self._trim,
            "deleted": self._delete,
            "nacked": self._give_back,
            "group-created": self._create_group,
            "group-set": self._set_group,
            "group-destroyed": self._destroy_group,
            "consumer-deleted": self._delete_consumer,
            "stream-set": self._set_stream,
            "key-deleted": self._delete_keys,
            "key-copied": self._copy_key,
            "databases-swapped": self._swap,
        }

    def feed(self, row: Row) -> list[Span]:
        """Apply the next row; return the spans that it ends."""
        action = self._actions.get(row[5])  # type: ignore[arg-type]
        if action is None:
            return []
        self._position = (row[10], row[11])  # type: ignore[assignment]
        self._clock = row[9]  # type: ignore[assignment]
        action(row)
        if not self._ended:
            return []
        ended, self._ended = self._ended, []
        return ended

    def rest(self) -> Iterator[Span]:
        """Yield the spans that are still open: the pending entries."""
        for stream in self._streams.values():
            for group in stream.groups.values():
                yield from group.pending.values()

    # Entries

    def _stream(self, row: Row) -> _Stream:
        key = (row[0], row[1])
        found = self._streams.get(key)  # type: ignore[arg-type]
        if found is None:
            found = self._streams[key] = _Stream()  # type: ignore[index]
        return found

    def _added(self, row: Row) -> None:
        self._stream(row).add(row[3])  # type: ignore[arg-type]

    def _set_stream(self, row: Row) -> None:
        self._stream(row).last = id_number(row[8])  # type: ignore[arg-type]

    def _trim(self, row: Row) -> None:
        stream = self._stream(row)
        gone = stream.trimmed(row[7], row[8], row[12])  # type: ignore[arg-type]
        if row[12] == "DELREF":
            self._dereference(stream, gone)

    def _delete(self, row: Row) -> None:
        stream, entry_id, policy = self._stream(row), row[3], row[12]
        assert isinstance(entry_id, str)
        if policy == "DELREF":
            self._dereference(stream, [entry_id])
        if policy != "ACKED" or not stream.is_needed(entry_id):
            stream.live.discard(entry_id)

    def _dereference(self, stream: _Stream, ids: Iterable[str]) -> None:
        for group in stream.groups.values():
            if group.pending:
                for entry_id in ids:
                    self._end(group, entry_id, "dereferenced")

    # Deliveries

    def _group(self, row: Row) -> tuple[_Stream, _Group]:
        stream = self._stream(row)
        group = stream.groups.get(row[2])  # type: ignore[arg-type]
        if group is None:
            group = stream.groups[row[2]] = _Group(0)  # type: ignore[index]
        return stream, group

    def _deliver(self, row: Row) -> None:
        stream, group = self._group(row)
        db, name, group_name, entry_id, consumer, _, at, count, last, clock, seq, ordinal, detail = row
        if last is not None:
            group.last = max(group.last, id_number(last))  # type: ignore[arg-type]
        held = group.pending.get(entry_id)  # type: ignore[arg-type]
        if detail != "GONE" and entry_id not in stream.live:
            # Claiming an entry whose message is gone removes it from the PEL.
            if held is not None:
                self._end(group, held.entry_id, "dropped")
            return
        if held is None:
            began = "first"
        else:
            began = "repeated" if held.consumer == consumer else "claimed"
            self._end(group, held.entry_id, began)
        if ordinal < 0 or detail is not None:  # type: ignore[operator]
            began = "found"
        group.pending[entry_id] = Span(  # type: ignore[index]
            db, name, group_name, entry_id, consumer, count, at, _ms(entry_id), began, seq, ordinal, clock,  # type: ignore[arg-type]
        )  # fmt: skip

    def _acknowledge(self, row: Row) -> None:
        stream, group = self._group(row)
        entry_id, policy = row[3], row[12]
        assert isinstance(entry_id, str)
        if not self._end(group, entry_id, "acked") or policy is None:
            return
        if policy == "DELREF":
            self._dereference(stream, [entry_id])
        if policy != "ACKED" or not stream.is_needed(entry_id):
            stream.live.discard(entry_id)

    def _give_back(self, row: Row) -> None:
        stream, group = self._group(row)
        db, name, group_name, entry_id, _, _, _, count, _, clock, seq, ordinal, detail = row
        mode, *flags = str(detail).split()
        held = group.pending.get(entry_id)  # type: ignore[arg-type]
        if held is None:
            if "FORCE" not in flags or ("GONE" not in flags and entry_id not in stream.live):
                return
            count_before = 0
        else:
            count_before = held.retry_count
            self._end(group, held.entry_id, "nacked")
        if count is None:
            counts = {"SILENT": max(count_before - 1, 0), "FATAL": _FATAL_COUNT}
            count = counts.get(mode, count_before)
        is_found = ordinal < 0 or "GONE" in flags or "FOUND" in flags  # type: ignore[operator]
        began = "found" if is_found else "nacked"
        group.pending[entry_id] = Span(  # type: ignore[index]
            db, name, group_name, entry_id, None, count, None, _ms(entry_id), began, seq, ordinal, clock,  # type: ignore[arg-type]
        )  # fmt: skip

    def _end(self, group: _Group, entry_id: str, how: str) -> bool:
        """End a span; return True if there was one."""
        span = group.pending.pop(entry_id, None)
        if span is None:
            return False
        seq, ordinal = self._position
        self._ended.append(
            span._replace(ended=how, until_seq=seq, until_ordinal=ordinal, until_clock_ms=self._clock)
        )
        return True

    # Groups

    def _create_group(self, row: Row) -> None:
        stream = self._stream(row)
        self._destroy_group(row)
        stream.groups[row[2]] = _Group(self._last_of(stream, row[8]))  # type: ignore[index]

    def _set_group(self, row: Row) -> None:
        stream, group = self._group(row)
        group.last = self._last_of(stream, row[8])

    @staticmethod
    def _last_of(stream: _Stream, last: int | str | None) -> int:
        return stream.last if last == "$" else id_number(str(last))

    def _destroy_group(self, row: Row) -> None:
        group = self._stream(row).groups.pop(row[2], None)  # type: ignore[arg-type]
        if group is not None:
            self._end_all(group, list(group.pending), "group-destroyed")

    def _delete_consumer(self, row: Row) -> None:
        _, group = self._group(row)
        owned = [entry_id for entry_id, span in group.pending.items() if span.consumer == row[4]]
        self._end_all(group, owned, "consumer-deleted")

    def _end_all(self, group: _Group, ids: Iterable[str], how: str) -> None:
        for entry_id in ids:
            self._end(group, entry_id, how)

    # Keys

    def _delete_keys(self, row: Row) -> None:
        db, name = row[0], row[1]
        if name is not None:
            self._drop((db, name))  # type: ignore[arg-type]
            return
        for key in [key for key in self._streams if db in {None, key[0]}]:
            self._drop(key)

    def _drop(self, key: tuple[int, str]) -> _Stream | None:
        stream = self._streams.pop(key, None)
        if stream is not None:
            for group in stream.groups.values():
                self._end_all(group, list(group.pending), "key-deleted")
        return stream

    def _copy_key(self, row: Row) -> None:
        db, name = row[0], row[1]
        assert isinstance(db, int)
        assert isinstance(name, str)
        number, _, source = str(row[12]).partition(" ")
        original = self._streams.get((int(number), source))
        self._drop((db, name))
        if original is not None:
            self._streams[db, name] = self._moved(original, db, name)

    def _moved(self, original: _Stream, db: int, name: str) -> _Stream:
        """Return a copy for another key, which takes the pending entries along."""
        copy = _Stream()
        copy.live, copy.order, copy.last = set(original.live), deque(original.order), original.last
        seq, ordinal = self._position
        for group_name, group in original.groups.items():
            copied = copy.groups[group_name] = _Group(group.last)
            for entry_id, span in group.pending.items():
                copied.pending[entry_id] = span._replace(
                    db=db, stream=name, began="found", from_seq=seq, from_ordinal=ordinal,
                    from_clock_ms=self._clock,
                )  # fmt: skip
        return copy

    def _swap(self, row: Row) -> None:
        first, second = row[0], int(str(row[12]))
        assert isinstance(first, int)
        if first == second:
            return
        other = {first: second, second: first}
        moving = [key for key in self._streams if key[0] in other]
        streams = [(key, self._streams[key]) for key in moving]
        moved = [((other[db], name), self._moved(stream, other[db], name)) for (db, name), stream in streams]
        for key in moving:
            self._drop(key)
        self._streams.update(moved)


def _ms(entry_id: object) -> int | None:
    ms = int(str(entry_id).partition("-")[0])
    return ms if ms < 1 << 63 else None
