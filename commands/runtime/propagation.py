"""How a handler propagates what it did; ``server/execution/propagation.py`` sends it to the AOF and the replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Propagation(Protocol):
    """The effects of the unit being run, on their way to the AOF and the replicas.

    Attributes:
        active: the AOF or a replica reads the effects; if False, handlers need not add any.
        effects: database and encoded command of each, in order.
        understood: the newest version whose commands every replica understands.
    """

    active: bool
    effects: list[tuple[int, bytes]]
    understood: tuple[int, int]

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Propagate one command."""

    def add_encoded(self, db: int, record: bytes) -> None:
        """Propagate one command that is encoded already."""

    def add_joined(self, db: int, records: bytes, number: int) -> None:
        """Propagate some commands that are encoded and joined already."""

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """Propagate one command to replicas only, not to the AOF."""

    def needs_downgrade(self, since: tuple[int, int]) -> bool:
        """Whether some replica is older than a version."""

    def add_with_downgrade(self, db: int, argv: Sequence[bytes], older: Iterable[Sequence[bytes]]) -> None:
        """Propagate a command; old replicas receive its older forms instead."""

    def split(self) -> None:
        """Propagate each effect so far as its own unit; the last one is that of the running command."""

    def flush_units(self, db: int, records: list[bytes]) -> None:
        """Propagate encoded commands immediately, each as its own unit."""

    def exempt(self, since: int) -> None:
        """Keep ``limit`` from the effects from number ``since`` on."""

    def begin_limited(self) -> None:
        """Note from now on what ``exempt`` says, until ``limit``."""

    def limit(self, since: int, *, aof: bool, replicas: bool) -> None:
        """Withhold the effects from number ``since`` on from the AOF, the replicas or both."""

    def forget(self) -> None:
        """Drop the effects of the unit."""
