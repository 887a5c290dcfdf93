"""Convert replies of a server to records; a value that an older version lacks becomes None."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from redis.exceptions import NoPermissionError, RedisError

from .connection import Reply
from .model import Consumer, Entry, Group, PendingEntry, ServerFacts

PAGE_BYTES: Final = 4 << 20  # of entries, or of other items, that are read for a page


def few(length: Reply, memory: Reply, most: int) -> int:
    """Return how many items of a key fit ``PAGE_BYTES`` of memory: at least one, at most ``most``.

    If the length or the memory is unknown (an error or a null), return ``most``.
    """
    if not isinstance(length, int) or not isinstance(memory, int) or not length:
        return most
    return max(1, min(most, PAGE_BYTES * length // max(1, memory)))


def pairs(reply: Reply) -> dict[str, Any]:
    """Return a flat array of names and values as a dict."""
    items = iter(reply)
    return {key.decode(): value for key, value in zip(items, items, strict=True)}


def listed(reply: Reply) -> list[Any]:
    """Return an array reply as a list; [] for an error or a null."""
    return [] if reply is None or isinstance(reply, RedisError) else list(reply)


def groups(reply: Reply, before: Iterable[Group] = ()) -> tuple[Group, ...]:
    """Return the groups of an XINFO GROUPS reply, with the findings in their PELs from ``before``.

    A round reads thousands of groups. So each record is built once, and its field names stay bytes.
    """
    known = {group.name: group for group in before}
    found = []
    for item in listed(reply):
        said: dict[bytes, Any] = dict(zip(item[::2], item[1::2], strict=True))
        name, pending = said[b"name"], said[b"pending"]
        group = (
            name,
            said[b"consumers"],
            pending,
            said[b"last-delivered-id"].decode(),
            said.get(b"entries-read"),
            said.get(b"lag"),
        )
        kept = known.get(name) if pending else None
        found.append(
            Group(
                *group,
                kept.oldest_id,
                kept.oldest_idle,
                kept.most_id,
                kept.most_deliveries,
                kept.looked,
                kept.read_at,
                kept.first_pending,
            )
            if kept
            else Group(*group)
        )
    return tuple(found)


def consumers(reply: Reply) -> tuple[Consumer, ...]:
    """Return the consumers of XINFO CONSUMERS."""
    found = [pairs(item) for item in listed(reply)]
    return tuple(
        Consumer(item["name"], item["pending"], item["idle"], item.get("inactive")) for item in found
    )


def pending(reply: Reply) -> tuple[PendingEntry, ...]:
    """Return the entries of XPENDING with a range."""
    return tuple(
        PendingEntry(entry_id.decode(), consumer, idle, count)
        for entry_id, consumer, idle, count in listed(reply)
    )


def entries(reply: Reply) -> tuple[Entry, ...]:
    """Return the entries of XRANGE."""
    return tuple(entry(item) for item in listed(reply) if item)


def entry(item: Any) -> Entry:
    """Return an entry of an XRANGE reply as a record; a deleted one has no fields."""
    words = iter(item[1] or ())
    return Entry(item[0].decode(), tuple(zip(words, words, strict=True)))


def now(reply: Reply) -> int:
    """Return the server's time from the reply of TIME, in milliseconds; the console's time if the user may not run TIME."""
    if isinstance(reply, NoPermissionError):
        return int(time.time() * 1000)
    return int(reply[0]) * 1000 + int(reply[1]) // 1000


def info(reply: bytes) -> dict[str, str]:
    """Return the fields of INFO."""
    return dict(
        line.split(":", 1)
        for line in reply.decode("utf-8", "replace").splitlines()
        if ":" in line and not line.startswith("#")
    )


def facts(reply: bytes, commands: frozenset[str], *, debug: bool) -> ServerFacts:
    """Return the facts about a server from its INFO reply.

    If the user may not run INFO, the reply is empty: then the kind is ``Server``, and the version is "".
    """
    said = info(reply)
    kind, version = ("Redis", said.get("redis_version", "0")) if said else ("Server", "")
    for name, field in (("Valkey", "valkey_version"), ("Rillet", "rillet_version")):
        if field in said:
            kind, version = name, said[field]
    return ServerFacts(
        kind,
        version,
        said.get("redis_mode", said.get("server_mode", "standalone")),
        said.get("role", "master"),
        int(said.get("used_memory", 0)),
        int(said.get("connected_clients", 0)),
        commands | ({"DEBUG"} if debug and kind == "Rillet" else set()),
        debug and kind == "Rillet",
    )
