"""Asks a server what the judgement of a stream leaves open: is this entry there, and how many are there after an id?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..redis import ids
from ..redis.connection import checked
from ..redis.key_names import key_of
from .judgement import entry_to_check
from .losses import LOG
from .sizes import Pace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..redis.connection import Connection
    from ..redis.stream_state import StreamState
    from .offsets import Position

Answers = dict[tuple[str, int], bool]


class StreamLook:
    """What there is of one stream up to the last id of a state.

    Args:
        connection: to its server.
        name: of the stream.
        now: the state.
        answers: of `check_entries`; what is not in them is asked for when it is needed.
        page: entries in one reply.
    """

    def __init__(
        self, connection: Connection, name: str, now: StreamState | None, answers: Answers, page: int
    ) -> None:
        self._connection = connection
        self._name = name
        self._now = now
        self._answers = answers
        self._page = page

    def has(self, stream_id: int) -> bool:
        """Return whether there is such an entry."""
        answer = self._answers.get((self._name, stream_id))
        return bool(self._connection.call(*_entry(self._name, stream_id))) if answer is None else answer

    def count_after(self, stream_id: int) -> int:
        """Count entries by reading them."""
        LOG.info("counting the entries of stream %r after %s", self._name, ids.text(stream_id))
        last, count = self._now.last if self._now else 0, 0
        pace = Pace(self._connection, self._page)
        while stream_id < last:
            wanted = pace.count
            chunk = self._connection.call(
                *("XRANGE", key_of(self._name), ids.encode(stream_id + 1), ids.encode(last)),
                *("COUNT", wanted),
            )
            pace.saw(len(chunk))
            count += len(chunk)
            if len(chunk) < wanted:
                break
            stream_id = ids.parse(chunk[-1][0])
        return count


def check_entries(
    connection: Connection, positions: Mapping[str, Position], states: Mapping[str, StreamState | None]
) -> Answers:
    """Ask in one round trip for the entries that the judgement of many streams will look for."""
    asked = [
        (name, wanted)
        for name, at in positions.items()
        if (wanted := entry_to_check(at, states.get(name))) is not None
    ]
    replies = checked(connection.pipeline([_entry(*each) for each in asked]))
    return {each: bool(reply) for each, reply in zip(asked, replies, strict=True)}


def _entry(name: str, stream_id: int) -> tuple[bytes | str, ...]:
    word = ids.encode(stream_id)
    return ("XRANGE", key_of(name), word, word)
