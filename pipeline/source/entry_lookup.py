"""Ask the server what judging a stream needs: whether an entry exists, and how many entries follow an id."""

from __future__ import annotations

from ..redis import ids
from ..redis.connection import Connection
from ..redis.key_names import key_of
from ..redis.stream_state import StreamState
from .losses import LOG
from .sizes import Pace

Answers = dict[tuple[str, int], bool]


class EntryLookup:
    """Asks the server about the entries of one stream, up to the last id of a state.

    ``answers``: from `loss_detection.check_entries`; other entries are looked up when needed.
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
        """Return True if an entry with this id exists."""
        answer = self._answers.get((self._name, stream_id))
        return bool(self._connection.call(*entry_words(self._name, stream_id))) if answer is None else answer

    def count_after(self, stream_id: int) -> int:
        """Return the number of entries with greater ids; this reads all of them."""
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


def entry_words(name: str, stream_id: int) -> tuple[bytes | str, ...]:
    """Return the words of the XRANGE that asks for one entry."""
    word = ids.encode(stream_id)
    return ("XRANGE", key_of(name), word, word)
