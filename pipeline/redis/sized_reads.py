"""XREAD and XREADGROUP with MAXSIZE, which servers have from Redis 8.10 on; without it where they have not.

It ends a reply after the entry with which so many bytes are reached, so that a limit of bytes holds for long entries too, of
which ``COUNT`` alone would bring a thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .connection import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .connection import Connection, Reply, Word

_UNKNOWN = "syntax error"


class SizedReads:
    """Commands of one connection; it finds out once whether its server takes MAXSIZE."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_max_size = True

    def call(self, head: Sequence[Word], size: int | None, tail: Sequence[Word]) -> Reply:
        """Run a command of these words, with MAXSIZE between them if a size is given.

        Raises:
            ServerError: it answered with an error.
            ConnectionLost: there was no answer.
        """
        if size is not None and self._has_max_size:
            try:
                return self._connection.call(*head, "MAXSIZE", size, *tail)
            except ServerError as error:
                if _UNKNOWN not in error.words:
                    raise
                self._has_max_size = False  # and nothing was delivered
        return self._connection.call(*head, *tail)
