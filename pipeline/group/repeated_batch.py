"""Deliver a batch again that Spark repeats, without the entries that were delivered too often.

Spark repeats a logged batch unchanged. Its entries are delivered once more, which is counted (XCLAIM with
RETRYCOUNT). An entry that has used up ``maxDeliveries`` moves to the dead letters. But a batch fails as a whole, so
the poisonous entry is unknown. Therefore, at the last allowed delivery, the batch continues with a sixteenth of those
entries, and the rest follow in batches of the same size. The batch with the poison fails and is divided again, until
the poison is alone. Up to 16 entries need no delivery beyond ``maxDeliveries``; 100,000 entries need three more.

The entries that a batch leaves out are recorded in the server before a task sees the batch: in a hash,
``rillet:group:<group>:<consumer>``, with one field per batch. A restart reads it, and plans and acknowledges the same
entries. ``rillet pipeline deadletter move`` writes to this hash, too: one field per entry, valid for any batch.

A query without the option ``consumer`` has a random consumer name, which a restart finds in Spark's log. Nothing may
be delivered to a name that is not logged. So the first batch is gathered only when Spark plans it, and its entries are
recorded in the server, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from ..redis import ids
from ..redis.connection import Connection, checked
from .dead_letters import is_poison
from .member import Idle, Member
from .offset import GroupOffset, Run, ids_of_steps, steps_of_ids

LeftOut = dict[str, frozenset[int]]
Entries = list[tuple[str, "Idle"]]
_DIVIDED_BY: Final = 16
_KEPT_MS: Final = 30 * 86_400_000
_KEPT_BATCHES: Final = 100


def left_out(connection: Connection, batch: GroupOffset) -> LeftOut:
    """Return the ids that a batch leaves out, by stream, as recorded in the server."""
    words: list[bytes] = connection.call("HGETALL", _key(batch.group, batch.consumer))
    found: dict[str, set[int]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name.decode() == _field(batch.query, batch.batch):
            for stream, steps in json.loads(value).items():
                found.setdefault(stream, set()).update(ids_of_steps(steps))
        elif name.startswith(b"["):
            stream_id, stream = json.loads(name)
            found.setdefault(stream, set()).add(ids.parse(stream_id))
    return {stream: frozenset(members) for stream, members in found.items()}


def leave_out_of_batch(connection: Connection, batch: GroupOffset, without: LeftOut) -> None:
    """Record in the server the ids that a batch leaves out (by stream); the record expires after 30 days."""
    key = _key(batch.group, batch.consumer)
    streams = {stream: steps_of_ids(sorted(members)) for stream, members in without.items()}
    commands: list[tuple[str | int, ...]] = [
        ("HSET", key, _field(batch.query, batch.batch), json.dumps(streams)),
        ("HDEL", key, _field(batch.query, batch.batch - _KEPT_BATCHES)),
        ("PEXPIRE", key, _KEPT_MS),
    ]
    checked(connection.pipeline(commands, repeatable=True))


def leave_out_of_any(
    connection: Connection, group: str, consumer: str, stream: str, members: Iterable[int]
) -> None:
    """Record in the server ids of a stream that every batch of this consumer leaves out; it expires after 30 days."""
    key = _key(group, consumer)
    fields = [word for each in members for word in (json.dumps([ids.text(each), stream]), "")]
    checked(connection.pipeline([("HSET", key, *fields), ("PEXPIRE", key, _KEPT_MS)], repeatable=True))


def keep_first(connection: Connection, batch: GroupOffset) -> None:
    """Record in the server the entries of a query's first batch.

    It is gathered after its offset is in Spark's log, so the log does not have them.
    """
    connection.call("SET", _first_key(batch), json.dumps(batch.as_json()), repeatable=True)


def first_kept(connection: Connection, batch: GroupOffset) -> GroupOffset | None:
    """Return a query's first batch with its recorded entries; None if it has not been gathered."""
    text = connection.call("GET", _first_key(batch))
    return None if text is None else GroupOffset.of_json(text.decode())


def forget_first(connection: Connection, batch: GroupOffset) -> None:
    """Let the record of a first batch expire in 30 days, because the batch is acknowledged."""
    connection.call("PEXPIRE", _first_key(batch), _KEPT_MS, repeatable=True)


def trial_size(entries: int) -> int:
    """Return how many of ``entries`` entries to try in one batch to find the poison: a sixteenth, at least one."""
    return max(-(-entries // _DIVIDED_BY), 1)


def divide(
    member: Member, most: int | None, batch: GroupOffset, without: LeftOut
) -> tuple[Entries, Entries, Entries]:
    """Return three parts of a repeated batch: deliver again, leave for a later batch, move to the dead letters.

    Entries that another consumer has claimed, or that are acknowledged, are in none of the three: they stay in the
    batch.

    Args:
        most: ``maxDeliveries``; None: only count deliveries.
        without: the entries that it leaves out already.
    """
    pending = _pending(member, batch, without)
    if most is None:
        return pending, [], []
    worn = [pair for pair in pending if is_poison(pair[1], most)]
    dead = worn if len(worn) == 1 else []
    due = [pair for pair in pending if pair[1].deliveries >= most - 1 and pair not in dead]
    waiting = due[trial_size(len(due)) :]
    others = {*waiting, *dead}
    return [pair for pair in pending if pair not in others], waiting, dead


def _pending(member: Member, batch: GroupOffset, without: LeftOut) -> Entries:
    """Return the entries of a batch that are pending with its consumer or with ours."""
    owners = dict.fromkeys([batch.consumer, member.consumer])
    found: Entries = []
    for piece in batch.pieces:
        skipped = without.get(piece.stream, frozenset())
        if isinstance(piece, Run):
            wanted = None
            first, last = piece.first, piece.last
        else:
            wanted = set(piece.ids)
            first, last = piece.ids[0], piece.ids[-1]
        found += [
            (piece.stream, each)
            for owner in owners
            for each in member.pending_between(piece.stream, first, last, owner)
            if each.stream_id not in skipped and (wanted is None or each.stream_id in wanted)
        ]
    return found


def by_stream(entries: Entries) -> dict[str, list[Idle]]:
    """Return pending entries grouped by stream."""
    found: dict[str, list[Idle]] = {}
    for stream, each in entries:
        found.setdefault(stream, []).append(each)
    return found


def joined(without: LeftOut, more: Entries) -> LeftOut:
    """Return a record of left-out entries that has ``more`` entries in addition."""
    added = {stream: {each.stream_id for each in members} for stream, members in by_stream(more).items()}
    return without | {stream: without.get(stream, frozenset()) | members for stream, members in added.items()}


def _first_key(batch: GroupOffset) -> str:
    return f"{_key(batch.group, batch.consumer)}:{batch.query}"


def _field(query: str, batch: int) -> str:
    return f"{query}:{batch}"


def _key(group: str, consumer: str) -> str:
    return f"rillet:group:{group}:{consumer}"
