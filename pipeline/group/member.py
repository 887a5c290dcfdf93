"""The driver as a member of a consumer group: claim entries, read new ones, acknowledge what Spark has committed.

Commands that deliver are sent once. If their reply is lost, the entries are in our PEL all the same, and `own` finds
them there: a caller that catches `ConnectionLost` starts again from `own` and misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..redis import ids
from ..redis.connection import Connection, ServerError, checked, read_facts
from ..redis.key_names import key_of
from ..redis.sized_reads import SizedReads
from .offset import BatchPart, Run

_PAGE: Final = 1000
_PIECES_AT_ONCE: Final = 50
_GREATEST_COUNT: Final = 2**63 - 1


@dataclass(frozen=True)
class Idle:
    """A pending entry that is old enough to be claimed: its id, its owner, and its delivery count."""

    stream_id: int
    owner: str
    deliveries: int


@dataclass
class Taken:
    """The result of claiming entries: the claimed entries, and the deleted ones."""

    # The claimed entries, each with its previous owner and its new delivery count, by id.
    ours: list[Idle] = field(default_factory=list)
    # Ids that the stream no longer has; XCLAIM removed them from the PEL.
    gone: list[int] = field(default_factory=list)
    size: int = 0  # the bytes of our entries, if the caller asked for them


class Member:
    """One consumer of one group, on one connection."""

    def __init__(self, connection: Connection, group: str, consumer: str) -> None:
        self.connection = connection
        self.group = group
        self.consumer = consumer
        self._sized = SizedReads(connection)

    def create_groups(self, starts: Mapping[str, str]) -> None:
        """Create the group in streams, and missing streams as empty ones; an existing group keeps its position.

        ``starts``: the id after which the group reads, by stream, or ``"$"``.
        Raises ServerError: a key is not a stream, or the server refuses.
        """
        asked = [
            ("XGROUP", "CREATE", key_of(stream), self.group, start, "MKSTREAM")
            for stream, start in starts.items()
        ]
        for reply in self.connection.pipeline(asked, repeatable=True):
            if isinstance(reply, ServerError) and reply.code != "BUSYGROUP":
                raise reply

    # Pending entries

    def own(self, stream: str, most: int) -> list[Idle]:
        """Return at most ``most`` of our consumer's pending entries, by id.

        While no batch is running, they were never in a batch.
        """
        return self._pending_with(self.consumer, stream, "-", "+", most)

    def pending_between(self, stream: str, first: int, last: int, owner: str) -> list[Idle]:
        """Return the pending entries of a consumer between two ids, both inclusive."""
        return self._pending_with(owner, stream, ids.text(first), ids.text(last), _GREATEST_COUNT)

    def _pending_with(self, owner: str, stream: str, start: str, end: str, most: int) -> list[Idle]:
        found: list[Idle] = []
        while len(found) < most:
            count = min(_PAGE, most - len(found))
            page = self._pending(stream, [start, end, count, owner])
            found += page
            if len(page) < count:
                break
            start = f"({ids.text(page[-1].stream_id)}"
        return found

    def idle(self, stream: str, least_idle_ms: int, most: int) -> list[Idle]:
        """Return pending entries of others that were idle for ``least_idle_ms`` or longer, or were released (XNACK).

        ``most`` limits the entries examined; our own ones among these are left out.
        """
        page = self._pending(stream, ["IDLE", least_idle_ms, "-", "+", most])
        return [each for each in page if each.owner != self.consumer]

    def pending(self, stream: str, texts: Sequence[str]) -> list[Idle]:
        """Return the pending entries with these ids, of any consumer."""
        asked = [("XPENDING", key_of(stream), self.group, text, text, 1) for text in texts]
        return [_idle(row) for rows in checked(self.connection.pipeline(asked)) for row in rows]

    def _pending(self, stream: str, words: list[str | int]) -> list[Idle]:
        rows = self.connection.call("XPENDING", key_of(stream), self.group, *words)
        return [_idle(row) for row in rows]

    def take(
        self,
        stream: str,
        wanted: Sequence[Idle],
        least_idle_ms: int,
        *,
        deliver: bool = True,
        weigh: int | None = None,
    ) -> Taken:
        """Claim entries for us, unless another consumer was faster; return what happened to each.

        Args:
            wanted: entries found by ``own`` or ``idle``.
            least_idle_ms: skip entries that were delivered more recently.
            deliver: count it as a delivery; the result has the new counts.
            weigh: fetch the entries themselves, this many per reply, to learn their bytes; None: fetch only their ids.
        """
        result = Taken()
        alike: dict[int, list[Idle]] = {}
        for each in wanted:
            alike.setdefault(each.deliveries, []).append(each)
        for deliveries, members in alike.items():
            # XNACK FATAL sets the delivery count to the maximum.
            now = min(deliveries + 1, _GREATEST_COUNT) if deliver else deliveries
            for page in _pages(members, weigh or _PAGE):
                words = [ids.text(each.stream_id) for each in page]
                # RETRYCOUNT sets the delivery count, with or without JUSTID.
                options: list[str | int] = [*words, "RETRYCOUNT", now, *([] if weigh else ["JUSTID"])]
                reply = self.connection.call(
                    *("XCLAIM", key_of(stream), self.group, self.consumer),
                    least_idle_ms,
                    *options,
                    repeatable=least_idle_ms == 0,
                )
                if weigh:
                    # Before Redis 7 the reply has a null for a deleted entry.
                    entries = [entry for entry in reply if entry]
                    result.size += _size(entries)
                    reply = [word for word, _ in entries]
                got = {ids.parse(word) for word in reply}
                result.ours += [
                    Idle(each.stream_id, each.owner, now) for each in page if each.stream_id in got
                ]
                result.gone += self._gone(stream, [each for each in page if each.stream_id not in got])
        result.ours.sort(key=lambda each: each.stream_id)
        return result

    def _gone(self, stream: str, missed: Sequence[Idle]) -> list[int]:
        """Return the ids that the stream no longer has, which XCLAIM dropped; other consumers claimed the rest first."""
        words = [ids.text(each.stream_id) for each in missed]
        replies = checked(
            self.connection.pipeline([("XRANGE", key_of(stream), word, word) for word in words])
        )
        return [each.stream_id for each, entries in zip(missed, replies, strict=True) if not entries]

    # New entries

    def read_new(self, most: Mapping[str, int]) -> dict[str, tuple[Run | None, int]]:
        """Read new entries of several streams in one round trip.

        ``most``: the maximum number of entries, by stream.

        Returns:
            By stream: the entries (None without any), and their bytes.
        """
        reader = ("XREADGROUP", "GROUP", self.group, self.consumer)
        asked = [(*reader, "COUNT", count, "STREAMS", key_of(name), ">") for name, count in most.items()]
        replies = checked(self.connection.pipeline(asked))
        return {name: _run(name, reply) for name, reply in zip(most, replies, strict=True)}

    def read_new_within(self, stream: str, most: int, size: int) -> tuple[Run | None, int]:
        """Read at most ``most`` new entries of one stream, and about ``size`` bytes if the server has MAXSIZE.

        Return the entries (None without any), and their bytes.
        """
        reader = ("XREADGROUP", "GROUP", self.group, self.consumer, "COUNT", most)
        return _run(stream, self._sized.call(reader, size, ("STREAMS", key_of(stream), ">")))

    def last_delivered(self, stream: str) -> int:
        """Return the group's last delivered id. Raises ServerError: ``NOGROUP``, or the stream does not exist."""
        facts = self._row(self.connection.call("XINFO", "GROUPS", key_of(stream)))
        if facts is None:
            raise ServerError(f"NOGROUP No such consumer group '{self.group}' for key name {stream!r}")
        return ids.parse(facts[b"last-delivered-id"])

    def all_facts(self, streams: Sequence[str]) -> dict[str, dict[bytes, Any]]:
        """Return our group's fields of XINFO GROUPS for several streams in one round trip.

        Streams that do not exist or lack the group are left out.
        """
        replies = self.connection.pipeline([("XINFO", "GROUPS", key_of(stream)) for stream in streams])
        rows = {
            stream: self._row(reply)
            for stream, reply in zip(streams, replies, strict=True)
            if not isinstance(reply, ServerError)
        }
        return {stream: row for stream, row in rows.items() if row is not None}

    def _row(self, reply: list[Any]) -> dict[bytes, Any] | None:
        for row in reply:
            facts = read_facts(row)
            if facts[b"name"] == self.group.encode():
                return facts
        return None

    # The end of a batch

    def acknowledge(
        self, pieces: Iterable[BatchPart], without: Mapping[str, frozenset[int]] | None = None
    ) -> None:
        """Acknowledge the entries of a batch, whoever owns them; repeating it is harmless.

        Args:
            pieces: of the batch.
            without: ids that the batch left out, by stream; these are not acknowledged.
        """
        every = list(pieces)
        kept = {
            stream: {ids.text(each).encode() for each in members}
            for stream, members in (without or {}).items()
        }
        for at in range(0, len(every), _PIECES_AT_ONCE):
            page = every[at : at + _PIECES_AT_ONCE]
            runs = [piece for piece in page if isinstance(piece, Run)]
            # All entries of a run were delivered to us, so at most ``count`` can be pending.
            asked = [
                (
                    "XPENDING",
                    key_of(run.stream),
                    self.group,
                    ids.text(run.first),
                    ids.text(run.last),
                    run.count,
                )
                for run in runs
            ]
            words = [
                (run.stream, [row[0] for row in rows])
                for run, rows in zip(runs, checked(self.connection.pipeline(asked)), strict=True)
            ]
            words += [
                (piece.stream, [ids.text(each).encode() for each in piece.ids])
                for piece in page
                if not isinstance(piece, Run)
            ]
            if kept:
                words = [
                    (stream, [word for word in members if word not in kept.get(stream, ())])
                    for stream, members in words
                ]
            acks = [("XACK", key_of(stream), self.group, *members) for stream, members in words if members]
            checked(self.connection.pipeline(acks, repeatable=True))


def _idle(row: Sequence[Any]) -> Idle:
    return Idle(ids.parse(row[0]), _name(row[1]), row[3])


def _name(word: bytes) -> str:
    return word.decode(errors="backslashreplace")


def _run(stream: str, reply: Any) -> tuple[Run | None, int]:
    if not reply or not reply[0][1]:
        return None, 0
    entries: list[Any] = reply[0][1]
    first, last = ids.parse_reply(entries[0][0]), ids.parse_reply(entries[-1][0])
    return Run(stream, first, last, len(entries)), _size(entries)


def _size(entries: Iterable[Sequence[Any]]) -> int:
    return sum(len(word) for _, fields in entries for word in fields)


def _pages(members: Sequence[Idle], size: int) -> Iterator[Sequence[Idle]]:
    for at in range(0, len(members), size):
        yield members[at : at + size]
