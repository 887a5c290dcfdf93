"""Replies of a server into records; what an older version leaves out becomes None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from .model import Consumer, Entry, Group, PendingEntry, ServerFacts

if TYPE_CHECKING:
    from .link import Reply


def pairs(reply: Reply) -> dict[str, Any]:
    """Return a flat array of names and values as a dict."""
    items = iter(reply)
    return {key.decode(): value for key, value in zip(items, items, strict=True)}


def listed(reply: Reply) -> list[Any]:
    """Return an array; an error and a null count as empty."""
    return [] if reply is None or isinstance(reply, RedisError) else list(reply)


def groups(reply: Reply) -> tuple[Group, ...]:
    """Return the groups of XINFO GROUPS."""
    found = [pairs(item) for item in listed(reply)]
    return tuple(
        Group(
            item["name"],
            item["consumers"],
            item["pending"],
            item["last-delivered-id"].decode(),
            item.get("entries-read"),
            item.get("lag"),
        )
        for item in found
    )


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
    """Return an entry; one that was deleted has no fields."""
    words = iter(item[1] or ())
    return Entry(item[0].decode(), tuple(zip(words, words, strict=True)))


def now(reply: Reply) -> int:
    """Return the milliseconds of TIME."""
    return int(reply[0]) * 1000 + int(reply[1]) // 1000


def facts(info: bytes, commands: frozenset[str], *, debug: bool) -> ServerFacts:
    """Return what INFO says of a server."""
    said = dict(
        line.split(":", 1)
        for line in info.decode("utf-8", "replace").splitlines()
        if ":" in line and not line.startswith("#")
    )
    kind, version = "Redis", said.get("redis_version", "0")
    for name, field in (("Valkey", "valkey_version"), ("Rillet", "rillet_version")):
        if field in said:
            kind, version = name, said[field]
    numbers = said.get("redis_version", "0").split(".")
    return ServerFacts(
        kind,
        version,
        tuple(int(number) for number in numbers if number.isdecimal()),
        said.get("redis_mode", said.get("server_mode", "standalone")),
        said.get("role", "master"),
        int(said.get("uptime_in_seconds", 0)),
        int(said.get("used_memory", 0)),
        int(said.get("connected_clients", 0)),
        int(said.get("instantaneous_ops_per_sec", 0)),
        commands,
        debug and kind == "Rillet",
    )
