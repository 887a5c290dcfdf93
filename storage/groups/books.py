"""The books of a group: who has which pending entry, since when, and how often it was delivered.

There are two ways of keeping them, with this one interface: ``dense.Dense`` for many entries that come and go together,
``plain.Plain`` for few that are claimed one by one. ``Group.plain_for`` chooses and rewrites them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ..freeing import Freeable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..streams.chunk import ChunkRun
    from ..streams.tuning import Tuning
    from .deliveries import Consumer, Facts
    from .pel import Pel
    from .pel_pages import Page, PelRuns, Place


class Books(Freeable):
    """The interface of both ways. What the PEL has beside its IDs is theirs; so every change of it goes through them.

    Attributes:
        pel: which IDs are pending.
        tuning: sizes and thresholds.
    """

    __slots__ = ("pel", "tuning")

    def __init__(self, pel: Pel, tuning: Tuning) -> None:
        self.pel = pel
        self.tuning = tuning

    @property
    @abstractmethod
    def entry_bytes(self) -> int:
        """About the bytes of memory that a pending entry takes."""

    @abstractmethod
    def copy(self, owners: dict[Consumer, Consumer]) -> Books:
        """The same of other consumers, who have nothing yet, with a PEL of their own."""

    # Entries come and move; ``Consumer.pending`` is counted here.

    @abstractmethod
    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], number: int, after: int, last: int, now: int
    ) -> None:
        """As ``Group.deliver``; nothing after ``after`` is pending."""

    @abstractmethod
    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """As ``Group.assign``."""

    @abstractmethod
    def reassign(
        self, consumer: Consumer, places: PelRuns, ms: int, count: int, facts: list[Facts] | None = None
    ) -> None:
        """As ``Group.reassign``."""

    @abstractmethod
    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Facts | None = None
    ) -> Facts:
        """As ``Group.take``."""

    # Entries go

    @abstractmethod
    def release(self, facts: Facts, count: int) -> None:
        """So many entries that had these facts have left the PEL, or have others now."""

    @abstractmethod
    def acknowledge_all(self, ids: list[bytes]) -> int | None:
        """As ``Group.acknowledge_all``."""

    @abstractmethod
    def let_go(self, consumer: Consumer) -> Iterator[None]:
        """Take what a consumer has off the PEL, and yield now and then."""

    # Searching by time

    @abstractmethod
    def oldest(self, latest: int) -> Iterator[Place]:
        """As ``pel_search.oldest``."""

    @abstractmethod
    def oldest_ms(self) -> int | None:
        """As ``pel_search.oldest_ms``."""

    @abstractmethod
    def few_idle(self, latest: int, few: int) -> list[tuple[int, Facts]] | None:
        """What was delivered at ``latest`` (milliseconds) or before, if that is known to be few entries; else None.

        IDs in any order, each with the facts that it has had; some may have gone elsewhere since.
        """

    @abstractmethod
    def numbers_of(self, consumer: Consumer) -> list[int]:
        """The IDs of what a consumer has, ascending."""

    def all_of(self, consumer: Consumer) -> list[int]:
        """As ``numbers_of``, by looking at what everybody has."""
        return [
            page.number(at)
            for page, start, stop in self.pel.spans()
            for at, facts in enumerate(page.batches[start:stop], start)
            if facts is not None and facts.consumer is consumer
        ]

    @abstractmethod
    def check_invariants(self, owners: dict[int, Consumer]) -> None:
        """Assert that all parts agree; for tests. ``owners``: all consumers by ``id()``."""

    def will_own(self, consumer: Consumer, numbers: list[int]) -> None:
        """List IDs, some of which may be listed already, in the order of a consumer if somebody has asked for it."""
        order = consumer.order
        if order is None:
            return
        if len(numbers) * self.tuning.reorder_part > consumer.pending:
            consumer.order = None
            return
        for number in numbers:
            order.insert(number)
