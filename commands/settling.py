"""What to do before a command needs macro nodes that are still to be worked out: whoever can wait does so.

Redis' macro nodes are worked out only when somebody asks for them (see ``storage.nodes``), which for a million
entries takes seconds. So the command is put off, the server accounts for the entries piece by piece between requests
of others, and then the command runs as if it had just come. In a transaction or a script it is done at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client


class PutOff(Exception):  # noqa: N818 - nothing went wrong
    """Raised by a handler before it changes anything: the command is to run again when work is done.

    Args:
        step: does a little of that work; False when there is nothing left to do.
    """

    def __init__(self, step: Callable[[], bool]) -> None:
        super().__init__()
        self.step = step


def settle_all(client: Client, key: bytes) -> None:
    """Go on only if all macro nodes of the stream at a key, if there is one, can be told soon."""
    stream = _behind(client, key)
    if stream is not None:
        raise PutOff(stream.settle_some)


def settle_up_to(client: Client, key: bytes, stream_ids: list[int]) -> None:
    """Go on only if the nodes that hold some entries can be told soon."""
    stream = _behind(client, key)
    if stream is not None and stream.is_far(max(stream_ids)):
        raise PutOff(stream.settle_some)


def settle_for_trimming(client: Client, key: bytes, by_length: bool, threshold: int, limit: int) -> None:
    """Go on only if the border up to which a stream is to be trimmed can be told soon."""
    stream = client.db.entries.get(key)
    if type(stream) is Stream and stream.trims_far(by_length, threshold, limit) and client.may_block:
        raise PutOff(stream.settle_some)


def _behind(client: Client, key: bytes) -> Stream | None:
    """A stream of which much is to be worked out, if the client can wait for that."""
    value = client.db.entries.get(key)
    return value if type(value) is Stream and value.is_behind and client.may_block else None
