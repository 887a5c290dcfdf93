"""The types of the server that handlers receive; at run time ``commands/`` does not import ``server/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...server.execution.command_entry import CommandEntry  # noqa: TC004 - __all__ is for type checkers, too
    from ...server.replication.replica import Replica  # noqa: TC004
    from ...server.server import Server  # noqa: TC004

    __all__ = ["CommandEntry", "Replica", "Server"]
