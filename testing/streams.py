"""Streams and groups of a test server as plain objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream; bytes that are not UTF-8 are surrogates in its text."""

    id: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending entry: delivered, but not acknowledged."""

    id: str
    consumer: str  # the owner; "" after XNACK
    idle: int | None  # milliseconds since the last delivery, by the server's clock; None after XNACK
    deliveries: int  # the delivery count

    def __str__(self) -> str:
        """Return one line."""
        who = (
            f"with {self.consumer} for {self.idle:,} ms" if self.consumer else "with no consumer (given back)"
        )
        return f"{self.id} pending {who}, delivery count {self.deliveries}"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a group, as it was when it was read."""

    name: str
    pending: list[Pending]
    idle: int  # milliseconds since its last request, by the server's clock


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group, as it was when it was read."""

    name: str
    last_delivered_id: str
    entries_read: int | None
    lag: int | None  # the number of undelivered entries; None if the server does not know it
    pending: list[Pending]  # the group's PEL, sorted by ID
    consumers: list[Consumer]

    def consumer(self, name: str) -> Consumer:
        """Return the group's consumer of this name.

        Raises:
            LookupError: there is none.
        """
        return _named(self.consumers, name, f"group {self.name!r} has no consumer")


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a test server, as it was when it was read."""

    name: str
    length: int
    last_id: str
    entries: list[Entry]
    groups: list[Group]

    @property
    def acknowledged_by_all(self) -> list[Entry]:
        """The entries that every group has delivered and acknowledged, so that no group needs them; [] without groups."""
        pending = {entry.id for group in self.groups for entry in group.pending}
        if not self.groups:
            return []
        passed = min(order_of(group.last_delivered_id) for group in self.groups)
        return [entry for entry in self.entries if order_of(entry.id) <= passed and entry.id not in pending]

    def group(self, name: str) -> Group:
        """Return the stream's group of this name.

        Raises:
            LookupError: there is none.
        """
        return _named(self.groups, name, f"stream {self.name!r} has no group")


_Named = TypeVar("_Named", Group, Consumer)


def stream_of(name: str, reply: list[Any] | dict[bytes, Any], now: int) -> Stream:
    """Parse the reply of ``XINFO STREAM name FULL COUNT 0``.

    ``now``: the server's time in milliseconds.
    """
    info = pairs(reply)
    entries = [
        Entry(text(id_), {text(field): text(value) for field, value in _twos(fields)})
        for id_, fields in info["entries"]
    ]
    groups = [_group(pairs(each), now) for each in info["groups"] or ()]
    return Stream(name, info["length"], text(info["last-generated-id"]), entries, groups)


def pairs(reply: list[Any] | dict[bytes, Any]) -> dict[str, Any]:
    """Return a reply of alternating names and values (RESP2), or a map (RESP3), as a dict."""
    items = reply.items() if isinstance(reply, dict) else _twos(reply)
    return {text(name): value for name, value in items}


def text(word: bytes) -> str:
    """Decode bytes as UTF-8; other bytes become surrogates."""
    return word.decode(errors="surrogateescape")


def to_bytes(word: str) -> bytes:
    """Encode text from ``text`` back to the same bytes."""
    return word.encode(errors="surrogateescape")


def order_of(entry: str) -> tuple[int, int]:
    """Return an ID as (milliseconds, sequence number), by which IDs are sorted."""
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence)


def _group(info: dict[str, Any], now: int) -> Group:
    pending = [
        Pending(text(id_), text(consumer), max(0, now - delivered) if consumer else None, deliveries)
        for id_, consumer, delivered, deliveries in info["pending"]
    ]
    consumers = []
    for each in map(pairs, info["consumers"]):
        name = text(each["name"])
        own = [one for one in pending if one.consumer == name]
        consumers.append(Consumer(name, own, max(0, now - each["seen-time"])))
    return Group(
        text(info["name"]),
        text(info["last-delivered-id"]),
        info.get("entries-read"),
        info.get("lag"),
        pending,
        consumers,
    )


def _twos(words: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(words[::2], words[1::2], strict=True))


def _named(found: list[_Named], name: str, missing: str) -> _Named:
    for each in found:
        if each.name == name:
            return each
    names = ", ".join(repr(each.name) for each in found) or "none"
    raise LookupError(f"{missing} {name!r}; there is: {names}")
