"""Log once which parts of the data have no place in the RDB version of a file, so that other servers lose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..server import Server


class UnsaidLog:
    """Remembers the last log line for each RDB version, because a server may write a file every minute."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._logged: dict[int, str] = {}

    def note(self, version: int, counts: str) -> None:
        """Log the counts for a file of an RDB version, unless they are empty or the same as last time."""
        if counts == self._logged.get(version, ""):
            return
        self._logged[version] = counts
        if counts:
            self._server.log.warning(
                f"RDB version {version} has no place for {counts}. Rillet reads them back from the file, other "
                "servers leave them out: see rdb-version and repl-rdb-version."
            )
