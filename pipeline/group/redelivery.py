"""A batch that Spark runs again, and the entries that it then goes on without.

Spark runs a logged batch again as it was. For its entries that is another delivery, so it is counted (XCLAIM with
RETRYCOUNT). An entry that has used up ``maxDeliveries`` moves to the dead letters; but a batch fails as a whole, and which of its
entries is the poison nobody says. So when the last allowed delivery comes, the batch goes on with a sixteenth of those
entries, and the rest follow in batches of as many, one after the other. The batch with the poison fails, and is divided again,
until it is alone. Up to 16 entries that takes no delivery more than ``maxDeliveries``; of 100,000 it takes three more.

What a batch goes on without is in the server before a task sees it: a hash, ``rillet:group:<group>:<consumer>``, with a
field for each batch. A restart reads it, and plans and acknowledges the same entries. ``rillet pipeline deadletter
move`` writes there, too: a field for each entry, whichever batch has it.

A query without option ``consumer`` has a name by chance, and a restart finds it in Spark's log. Nothing may be delivered
to a name that is in no log. So the first batch is gathered when Spark plans it, and not before, and its entries are kept in
the server as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..redis import ids
from ..redis.connection import checked
from .offset import GroupOffset, Run, ids_of_steps, steps_of_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..redis.connection import Connection
    from .member import Idle, Member

Without = dict[str, frozenset[int]]
_DIVIDED_BY: Final = 16
_KEPT_MS: Final = 30 * 86_400_000
_KEPT_BATCHES: Final = 100


def left_out(connection: Connection, batch: GroupOffset) -> Without:
    """Return the entries, by stream, that a batch goes on without."""
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


def leave_out_of_batch(connection: Connection, batch: GroupOffset, without: Without) -> None:
    """Record what a batch goes on without, for 30 days from its last start on."""
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
    """Record that whichever batch has these entries goes on without them."""
    key = _key(group, consumer)
    fields = [word for each in members for word in (json.dumps([ids.text(each), stream]), "")]
    checked(connection.pipeline([("HSET", key, *fields), ("PEXPIRE", key, _KEPT_MS)], repeatable=True))


def keep_first(connection: Connection, batch: GroupOffset) -> None:
    """Record the entries of a first batch, which were gathered after its offset was in Spark's log."""
    connection.call("SET", _first_key(batch), json.dumps(batch.as_json()), repeatable=True)


def first_kept(connection: Connection, batch: GroupOffset) -> GroupOffset | None:
    """Return a first batch with its entries; None: they were not gathered yet."""
    text = connection.call("GET", _first_key(batch))
    return None if text is None else GroupOffset.of_json(text.decode())


def forget_first(connection: Connection, batch: GroupOffset) -> None:
    """Let the record of a first batch that was acknowledged go, in 30 days."""
    connection.call("PEXPIRE", _first_key(batch), _KEPT_MS, repeatable=True)


def trial_size(entries: int) -> int:
    """Return how many of so many entries, one of which may be the poison, are tried in one batch."""
    return max(-(-entries // _DIVIDED_BY), 1)


class Redelivery:
    """What becomes of the entries of a batch that is run again.

    Args:
        member: the consumer that runs it.
        most: ``maxDeliveries``; None: they are counted, and that is all.
    """

    def __init__(self, member: Member, most: int | None) -> None:
        self._member = member
        self._most = most

    def divide(
        self, batch: GroupOffset, without: Without
    ) -> tuple[dict[str, list[Idle]], dict[str, list[Idle]], dict[str, list[Idle]]]:
        """Return what is delivered again, what waits for a later batch, and what moves to the dead letters, by stream.

        Entries of the batch that another consumer has claimed, or that are acknowledged, are in none of them: they stay in the batch.
        """
        pending = self._pending(batch, without)
        again: dict[str, list[Idle]] = {}
        waiting: dict[str, list[Idle]] = {}
        dead: dict[str, list[Idle]] = {}
        if self._most is None:
            for stream, each in pending:
                again.setdefault(stream, []).append(each)
            return again, waiting, dead
        worn = [pair for pair in pending if pair[1].deliveries >= self._most]
        if len(worn) == 1:
            dead[worn[0][0]] = [worn[0][1]]
            pending = [pair for pair in pending if pair is not worn[0]]
        due = [pair for pair in pending if pair[1].deliveries >= self._most - 1]
        tried = trial_size(len(due))
        passed = 0
        for stream, each in pending:
            if each.deliveries >= self._most - 1:
                passed += 1
            target = waiting if each.deliveries >= self._most - 1 and passed > tried else again
            target.setdefault(stream, []).append(each)
        return again, waiting, dead

    def _pending(self, batch: GroupOffset, without: Without) -> list[tuple[str, Idle]]:
        """Return the entries of a batch that are pending with its consumer, or with ours."""
        owners = dict.fromkeys([batch.consumer, self._member.consumer])
        found: list[tuple[str, Idle]] = []
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
                for each in self._member.pending_between(piece.stream, first, last, owner)
                if each.stream_id not in skipped and (wanted is None or each.stream_id in wanted)
            ]
        return found


def ids_by_stream(entries: Mapping[str, Sequence[Idle]]) -> Without:
    """Return the ids alone."""
    return {stream: frozenset(each.stream_id for each in members) for stream, members in entries.items()}


def joined(one: Mapping[str, frozenset[int]], other: Mapping[str, frozenset[int]]) -> Without:
    """Return the entries of both."""
    return {
        stream: one.get(stream, frozenset()) | other.get(stream, frozenset()) for stream in {*one, *other}
    }


def _first_key(batch: GroupOffset) -> str:
    return f"{_key(batch.group, batch.consumer)}:{batch.query}"


def _field(query: str, batch: int) -> str:
    return f"{query}:{batch}"


def _key(group: str, consumer: str) -> str:
    return f"rillet:group:{group}:{consumer}"
