"""What MIGRATE asks the server to do; ``server/net/migration.py`` does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .client import Client


@dataclass(frozen=True, slots=True)
class Migration:
    """The request of MIGRATE.

    Attributes:
        port: below 0 for none that can be connected to.
        database: of the target; -1: the first database of its connections.
        timeout: of each step, in milliseconds.
        copy: the keys stay here.
        replace: keys of the target are overwritten.
        credentials: a password, or a user and a password; empty for none.
    """

    host: str
    port: int
    database: int
    timeout: int
    keys: list[bytes]
    copy: bool
    replace: bool
    credentials: list[bytes]


class Migrations(Protocol):
    """The keys on their way to other servers."""

    def start(self, client: Client, argv: list[bytes], migration: Migration) -> None:
        """Block a client until its keys are moved."""
