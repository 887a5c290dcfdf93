"""XREAD and XREADGROUP with MAXSIZE, which servers have since Redis 8.10; without it on older servers.

MAXSIZE ends a reply after the entry that reaches this number of bytes. So a limit of bytes also holds for long entries,
where ``COUNT`` alone would allow a thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .connection import Connection, Reply, ServerError, Word

_UNKNOWN = "syntax error"


class SizedReads:
    """Reads on one connection with a limit of bytes, if the server supports MAXSIZE; the first read finds out."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_max_size = True

    def call(self, head: Sequence[Word], size: int | None, tail: Sequence[Word]) -> Reply:
        """Run the command ``head`` + ``tail``, with MAXSIZE between them if ``size`` (bytes) is given and supported.

        Raises:
            ServerError: the server replied with an error.
            ConnectionLost: there was no reply.
        """
        if size is not None and self._has_max_size:
            try:
                return self._connection.call(*head, "MAXSIZE", size, *tail)
            except ServerError as error:
                if _UNKNOWN not in error.words:
                    raise
                self._has_max_size = False  # and nothing was delivered
        return self._connection.call(*head, *tail)
