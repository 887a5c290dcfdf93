"""Log once which parts of the data a file has no standard place for, so that other servers miss them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..server import Server


class UnsaidLog:
    """Remembers the last line of each version, so that a file every minute does not repeat it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._logged: dict[int, str] = {}

    def note(self, version: int, counts: str) -> None:
        """Log the counts of a file of a version, unless they are its last ones; nothing for none."""
        if counts == self._logged.get(version, ""):
            return
        self._logged[version] = counts
        if counts:
            self._server.log.warning(
                f"RDB version {version} has no place for {counts}. Rillet reads them back from the file, other "
                "servers leave them out: see rdb-version and repl-rdb-version."
            )
