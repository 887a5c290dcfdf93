"""LMOVEM and BLMOVEM: move several elements between lists at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError
from ...storage.collections.list import List
from ...storage.keyspace import notifications as events
from ..runtime.arguments import COUNT_NOT_POSITIVE, parse_positive
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade
from ..runtime.timeouts import parse_seconds, wait
from ..spec.command import handles
from . import specs
from .shared import after_removal, parse_side, pop_command, push, take

_SINCE: Final = (8, 10)


class _Batch:
    """The arguments of LMOVEM and BLMOVEM.

    Args:
        client: its version decides how to parse the timeout.
        blocking: whether there is a timeout between the sides and the options.
    """

    __slots__ = ("count", "exactly", "from_left", "order", "sides", "source", "target", "timeout", "to_left")

    def __init__(self, client: Client, words: list[bytes], *, blocking: bool = False) -> None:
        self.source, self.target = words[1], words[2]
        self.sides = words[3:5]
        self.from_left, self.to_left = map(parse_side, self.sides)
        self.timeout = parse_seconds(client, words[5]) if blocking else 0  # in milliseconds, 0 for LMOVEM
        self.count, self.exactly, self.order = 1, False, b"OBO"
        options = words[6:] if blocking else words[5:]
        if not options:
            if blocking:
                self.order = b"BULK"  # shows in the propagated command
            return
        selector, self.order = options[0].upper(), options[-1].upper()
        if len(options) != 3 or selector not in {b"COUNT", b"EXACTLY"}:
            raise ReplyError(SYNTAX)
        self.count = parse_positive(options[1], COUNT_NOT_POSITIVE)
        if self.order not in {b"OBO", b"BULK"}:
            raise ReplyError(SYNTAX)
        self.exactly = selector == b"EXACTLY"

    def move(self, client: Client) -> list[bytes] | None:
        """Move the elements; return them in the order of the target, or None if there are too few."""
        value = client.write_value(self.source, List)
        if value is None or (self.exactly and len(value) < self.count):
            return None
        given = client.db.write(self.target)
        if given is not None and type(given) is not List:
            raise ReplyError(WRONG_TYPE)
        elements = take(value, min(self.count, len(value)), left=self.from_left)
        if self.order == b"OBO" and self.from_left == self.to_left:
            elements.reverse()  # the first element moved ends up innermost
        pushed = elements[::-1] if self.to_left else elements
        event = b"lpop" if self.from_left else b"rpop"
        if given is value:
            client.db.keyspace.notify(events.LIST, event, self.source, client.db)
            push(client, self.target, value, pushed, left=self.to_left)
            client.db.keyspace.dirty += len(elements)
        else:
            push(client, self.target, given, pushed, left=self.to_left)
            after_removal(client, self.source, value, event, len(elements))
        return elements

    def propagate(self, client: Client, words: Sequence[bytes], elements: list[bytes]) -> None:
        """Propagate the move; older replicas receive the removals and the insertions."""
        older: list[Sequence[bytes]] | None = None
        if needs_downgrade(client, _SINCE):
            pushed = elements[::-1] if self.to_left else elements
            taking = pop_command(self.source, len(elements), left=self.from_left)
            putting = [b"LPUSH" if self.to_left else b"RPUSH", self.target, *pushed]
            older = [taking, putting]
            when = client.db.expires.get(self.source)
            if self.source == self.target and when is not None:
                older.append((b"PEXPIREAT", self.source, b"%d" % when))
        client.propagate_with_downgrade(words, older)


@handles(specs.LMOVEM)
def lmovem(client: Client, args: list[bytes]) -> bytes:
    """Move several elements between lists; reply with them in the order that they have in the destination.

    OBO moves one by one, BULK keeps their order. Reply with a null array, and move nothing, if the source is missing or has
    fewer elements than EXACTLY requests.
    """
    batch = _Batch(client, args)
    elements = batch.move(client)
    if elements is None:
        return replies.null_array(client.resp)
    batch.propagate(client, args, elements)
    return replies.bulk_array(elements)


@handles(specs.BLMOVEM)
def blmovem(client: Client, args: list[bytes]) -> bytes | None:
    """Like LMOVEM, but block until one element (COUNT) or all (EXACTLY) are there; reply with a null array on timeout."""
    batch = _Batch(client, args, blocking=True)
    elements = batch.move(client)
    if elements is None:
        return wait(client, args[1:2], batch.timeout, args, List)
    client.db.write(batch.source)  # the second lookup, as in BLMOVE
    moved = b"%d" % len(elements)
    words = [b"LMOVEM", batch.source, batch.target, *batch.sides, b"EXACTLY", moved, batch.order]
    batch.propagate(client, words, elements)
    return replies.bulk_array(elements)
