"""Log once which parts of the data have no standard place in a file, so that other servers do not read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..server import Server


class UnsaidLog:
    """Remembers the last log line for each RDB version, so that a file every minute does not repeat it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._logged: dict[int, str] = {}

    def note(self, version: int, counts: str) -> None:
        """Log the counts for a file of an RDB version, unless they are empty or equal to the last ones for that version."""
        if counts == self._logged.get(version, ""):
            return
        self._logged[version] = counts
        if counts:
            self._server.log.warning(
                f"RDB version {version} has no place for {counts}. Rillet reads them back from the file, other "
                "servers leave them out: see rdb-version and repl-rdb-version."
            )
