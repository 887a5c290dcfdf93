"""What replicas of an older version are sent in place of a command that they may not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .client import Client

# The most items of one command in a script: Lua passes fewer than 8,000 words to a function.
_UNPACKED: Final = 4000
_WHERE_KNOWN: Final = b"redis.pcall(unpack(ARGV)) return 1"


def needs_downgrade(client: Client, since: tuple[int, int]) -> bool:
    """Return True if some replica may be older than the version ``since``."""
    return client.server.propagation.needs_downgrade(since)


def propagate_where_known(client: Client, words: Sequence[bytes], since: tuple[int, int]) -> None:
    """Propagate a command that the version ``since`` introduced; replicas that do not know it skip it."""
    client.propagate_with_downgrade(words, [where_known(words)] if needs_downgrade(client, since) else None)


def where_known(words: Sequence[bytes]) -> list[bytes]:
    """Wrap a command into an EVAL that runs it on replicas that know it, and does nothing on the others.

    All replicas get the same stream, so it must be one command for both. The key is the second word.
    """
    return [b"EVAL", _WHERE_KNOWN, b"1", words[1], *words]


def where_known_of_many(
    before: Sequence[bytes], items: Sequence[bytes], after: Sequence[bytes] = ()
) -> list[list[bytes]]:
    """Like ``where_known``, for a command with counted items: split the items over several commands.

    Args:
        before: the words before the number of items.
        items: the items; the effect of each does not depend on the others.
        after: the words after the items.
    """
    pieces = (items[at : at + _UNPACKED] for at in range(0, len(items), _UNPACKED))
    return [where_known([*before, b"%d" % len(piece), *piece, *after]) for piece in pieces]
