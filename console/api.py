"""Streams, groups and pending entries as JSON, for scripts: ``/api/…`` and ``rillet top --json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .connection import GoneError, command
from .garbage import garbage
from .model import Group, PendingEntry, Stream
from .names import command_line, quote, unquote
from .page_details import PENDING, GroupSubject
from .poller import Overview, Poller
from .selection import milliseconds
from .values import Values

LIMIT: Final = 100  # pending entries of an answer, unless it is asked for others
MOST: Final = 1_000


class AbsentError(Exception):
    """There is no such address, stream or group."""


async def answer(poller: Poller, path: str, typed: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to a request as an object for JSON.

    Args:
        path: the part of the address after ``/api/``.
        typed: the parameters of the address.

    Raises:
        AbsentError: nothing is at the address.
        ValueError: a parameter cannot be parsed.
        GoneError: the server cannot be reached.
        RedisError: the server's error reply.
    """
    kind, _, name = path.partition("/")
    overview = poller.overview
    if overview.gone or overview.facts is None:
        raise GoneError(overview.gone or "it was not read yet")
    if kind == "streams" and name:
        found = overview.streams.get(unquote(name))
        if found is None:
            raise AbsentError("there is no such stream")
        return {"time_ms": overview.now, **_stream(found, overview)}
    if path == "streams":
        return streams(overview)
    if path == "groups":
        return {**_head(overview), "groups": [_group(*one, overview) for one in _groups(overview, typed)]}
    if path == "pending":
        return {"time_ms": overview.now, **await _pending(poller, typed)}
    raise AbsentError("the addresses are /api/streams, /api/streams/NAME, /api/groups and /api/pending")


def streams(overview: Overview) -> dict[str, Any]:
    """Return all streams with their groups as an object for JSON, in order of trouble (``Stream.trouble``)."""
    worst = sorted(overview.streams.values(), key=lambda one: one.trouble, reverse=True)
    return {**_head(overview), "streams": [_stream(one, overview) for one in worst]}


def _head(overview: Overview) -> dict[str, Any]:
    facts = overview.facts
    return {
        "server": {"kind": facts.kind, "version": facts.version, "mode": facts.mode, "role": facts.role}
        if facts
        else None,
        "time_ms": overview.now,
        "complete": not (overview.sweeping or overview.left_out),
    }


def _stream(stream: Stream, overview: Overview) -> dict[str, Any]:
    spare = garbage(stream, overview.facts)
    trim = spare.trim(stream.key) if spare else None
    return {
        "stream": quote(stream.key),
        "length": stream.length,
        "memory_bytes": stream.memory,
        "added_per_second": _rounded(stream.rate_in),
        "delivered_per_second": _rounded(stream.rate_out),
        "lag": stream.worst_lag,
        "pending": stream.pending,
        "oldest_idle_ms": overview.aged(stream.oldest_idle),
        "garbage": {
            "entries": spare.entries,
            "exact": spare.exact,
            "memory_bytes": spare.memory,
            "since_ms": spare.since,
            "trim": command_line(trim) if trim else None,
            "held_by": spare.held_by or None,
        }
        if spare
        else None,
        "groups": [_group(stream, group, overview) for group in stream.groups],
        "error": stream.gone or None,
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)


def _group(stream: Stream, group: Group, overview: Overview) -> dict[str, Any]:
    read = bool(group.pending and group.read_at)
    return {
        "stream": quote(stream.key),
        "group": quote(group.name),
        "consumers": group.consumers,
        "pending": group.pending,
        "lag": group.lag,
        "last_delivered_id": group.last_delivered,
        # The number of pending entries that the last four values cover; null: all.
        "looked_at": group.looked if group.pending else None,
        "read_ms": group.read_at if read else None,
        "oldest_idle_ms": overview.aged(group.oldest_idle) if read else None,
        "oldest_id": group.oldest_id or None if read else None,
        "most_deliveries": group.most_deliveries if read else None,
        "most_delivered_id": group.most_id or None if read else None,
    }


def _groups(overview: Overview, typed: Mapping[str, str]) -> Iterator[tuple[Stream, Group]]:
    """Return the groups that match ``stream`` and ``group``, those with the oldest entry first."""
    values = Values(typed)
    wanted = {name: values.word(name) for name in ("stream", "group") if values.text(name)}
    found = [
        (stream, group)
        for stream in overview.streams.values()
        for group in stream.groups
        if wanted.get("stream", stream.key) == stream.key and wanted.get("group", group.name) == group.name
    ]
    if not found and wanted:
        raise AbsentError("there is no such group")
    yield from sorted(found, key=lambda one: one[1].oldest_idle or 0, reverse=True)


async def _pending(poller: Poller, typed: Mapping[str, str]) -> dict[str, Any]:
    """Return the pending entries with at least ``idle`` and ``tries`` deliveries, longest idle first."""
    values = Values(typed)
    idle, tries = milliseconds(values.text("idle")), values.number("tries", 0)
    limit = values.number("limit", LIMIT, 1)
    if limit > MOST:
        raise ValueError(f"limit is {MOST:,} at most")
    found: list[tuple[Stream, Group, PendingEntry]] = []
    looked, complete = 0, not (poller.overview.sweeping or poller.overview.left_out)
    for stream, group in list(_groups(poller.overview, typed)):
        if not group.pending:
            continue
        if looked >= PENDING:
            complete = False
            break
        detail = await poller.data_of(GroupSubject(stream.key, group.name))
        looked += len(detail.pel)
        complete = complete and detail.whole
        found += [(stream, group, one) for one in detail.pel if one.idle >= idle and one.deliveries >= tries]
    found.sort(key=lambda one: -one[2].idle)
    return {"complete": complete, "fitting": len(found), "pending": [_entry(*one) for one in found[:limit]]}


def _entry(stream: Stream, group: Group, entry: PendingEntry) -> dict[str, Any]:
    key, name = stream.key, group.name
    idle = max(0, entry.idle)
    return {
        "stream": quote(key),
        "group": quote(name),
        "id": entry.id,
        "consumer": quote(entry.consumer) if entry.consumer else None,
        "idle_ms": entry.idle if entry.idle >= 0 else None,
        "deliveries": entry.deliveries,
        "read": command_line(command("XRANGE", key, entry.id, entry.id)),
        # Pass the current idle time, so that an entry that somebody else claims meanwhile stays with its new owner.
        "claim": f"{command_line(command('XCLAIM', key, name))} CONSUMER {idle} {entry.id}",
        "acknowledge": command_line(command("XACK", key, name, entry.id)),
    }
