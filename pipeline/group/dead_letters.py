"""Poison messages: move entries that were delivered too often to a dead-letter stream, and acknowledge them.

A dead letter has six header fields (``HEADER``), then the fields of the entry in their order::

    rillet.stream orders  rillet.id 1700000000000-0  rillet.group billing  rillet.consumer worker-3
    rillet.deliveries 5   rillet.reason "delivered too often and never acknowledged (maxDeliveries=5)"   <the entry>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..redis import ids
from ..redis.connection import Connection, ServerError, checked
from ..redis.key_names import key_of, name_of
from .member import Idle, Member

if TYPE_CHECKING:
    from .options import GroupOptions

HEADER: Final = tuple(
    b"rillet." + word for word in (b"stream", b"id", b"group", b"consumer", b"deliveries", b"reason")
)
_AT_ONCE: Final = 100


@dataclass(frozen=True)
class DeadLetter:
    """One entry of a dead-letter stream: its origin, the reason, and the fields of the original entry."""

    stream: str
    stream_id: int
    group: str
    consumer: str
    deliveries: int
    reason: str
    fields: tuple[bytes, ...]

    def words(self) -> list[bytes]:
        """Return the dead letter as alternating fields and values of an entry."""
        texts = ids.text(self.stream_id), self.group, self.consumer, str(self.deliveries), self.reason
        values = key_of(self.stream), *(text.encode() for text in texts)
        header = [word for pair in zip(HEADER, values, strict=True) for word in pair]
        return [*header, *self.fields]

    @classmethod
    def of_words(cls, words: Sequence[bytes]) -> DeadLetter:
        """Parse the fields and values of an entry of a dead-letter stream.

        Raises ValueError: the entry is not a dead letter.
        """
        width = 2 * len(HEADER)
        if tuple(words[:width:2]) != HEADER:
            raise ValueError("not a dead letter: it does not begin with rillet.stream, rillet.id, ...")
        key, *texts = words[1:width:2]
        stream_id, group, consumer, deliveries, reason = (word.decode(errors="replace") for word in texts)
        return cls(
            name_of(key), ids.parse(stream_id), group, consumer, int(deliveries), reason, tuple(words[width:])
        )


def is_poison(entry: Idle, most: int | None) -> bool:
    """Return True if an entry was delivered ``most`` times or more (``maxDeliveries``; None: never True)."""
    return most is not None and entry.deliveries >= most


def move_poison(
    member: Member, options: GroupOptions, stream: str, poison: Sequence[Idle], least_idle_ms: int
) -> tuple[int, list[int]]:
    """Claim entries that have used up their deliveries, and move them to the dead-letter stream.

    Return the number of moved entries, and the ids of entries that the stream no longer had.
    ``least_idle_ms``: leave out entries that were delivered more recently.
    """
    taken = member.take(stream, poison, least_idle_ms, deliver=False)
    reason = f"delivered too often and never acknowledged (maxDeliveries={options.max_deliveries})"
    moved, gone = move_to_dead_letters(member, stream, options.dead_letters_of(stream), taken.ours, reason)
    return moved, [*taken.gone, *gone]


def move_to_dead_letters(
    member: Member, stream: str, target: str, poison: Sequence[Idle], reason: str
) -> tuple[int, list[int]]:
    """Move entries that are pending with us to the dead-letter stream, each exactly once.

    XADD and XACK run in one transaction that watches the dead-letter stream. If the reply is lost and a retry
    succeeds, the first transaction fails should it arrive late.

    Return how many were moved, and the ids of entries that the stream no longer had (only acknowledged).

    Args:
        poison: the entries, claimed by ``Member.take``.
        reason: a text for the reader of the dead letter.

    Raises:
        ServerError: the target is not a stream, or the server refuses to write.
        ConnectionLost: start again; moved entries are no longer pending.
    """
    moved = 0
    gone: list[int] = []
    for at in range(0, len(poison), _AT_ONCE):
        page = list(poison[at : at + _AT_ONCE])
        while (done := _move_page(member, stream, target, page, reason)) is None:
            pass  # another client wrote to the dead-letter stream
        moved += done[0]
        gone += done[1]
    return moved, gone


def _move_page(
    member: Member, stream: str, target: str, page: Sequence[Idle], reason: str
) -> tuple[int, list[int]] | None:
    connection, group, key = member.connection, member.group, key_of(stream)
    words = [ids.text(each.stream_id) for each in page]
    try:
        _watch(connection, target)
        pending = checked(
            connection.pipeline([("XPENDING", key, group, word, word, 1, member.consumer) for word in words])
        )
        bodies = checked(connection.pipeline([("XRANGE", key, word, word) for word in words]))
    except BaseException:
        connection.close()  # with the connection goes its WATCH
        raise
    letters: list[tuple[Any, ...]] = []
    acks: list[tuple[Any, ...]] = []
    gone: list[int] = []
    for each, mine, body in zip(page, pending, bodies, strict=True):
        if not mine:
            continue
        ack = ("XACK", key, group, ids.text(each.stream_id))
        if body:
            letter = DeadLetter(
                stream, each.stream_id, group, each.owner, each.deliveries, reason, tuple(body[0][1])
            )
            letters.append(("XADD", target, "*", *letter.words()))
            acks.insert(len(letters) - 1, ack)
        else:
            gone.append(each.stream_id)
            acks.append(ack)
    # Show the error of the command that was refused, not the EXECABORT of EXEC.
    replies = connection.pipeline([("MULTI",), *letters, *acks, ("EXEC",)])
    results: list[Any] | None = checked(replies)[-1]
    if results is None:
        return None
    checked(results)
    # An entry that another consumer claimed and acknowledged in the meantime is not moved.
    count = len(letters)
    not_ours = [
        added for added, acked in zip(results[:count], results[count : 2 * count], strict=True) if not acked
    ]
    if not_ours:
        connection.call("XDEL", target, *not_ours, repeatable=True)
    return count - len(not_ours), gone


def _watch(connection: Connection, target: str) -> None:
    connection.call("WATCH", target)
    kind = connection.call("TYPE", target)
    if kind not in {b"none", b"stream"}:
        raise ServerError(f"WRONGTYPE deadLetterStream {target!r} is a {kind.decode()}, not a stream")
