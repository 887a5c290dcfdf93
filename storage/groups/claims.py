"""What a claim may take, and what it has done: the words between the claims of one group and the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ..streams.ids import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

SCAN_FACTOR: Final = 10  # XAUTOCLAIM looks at COUNT times so many pending entries
# Entries that share their facts afterwards: IDs, name of the owner, delivery time (milliseconds), delivery count.
Change: TypeAlias = "tuple[Sequence[bytes], bytes, int, int]"


class ClaimTerms:
    """Which entries a claim may take, and the facts that they get.

    Attributes:
        latest: only entries delivered at this time (milliseconds since the epoch) or before are claimed.
        ms: their delivery time afterwards.
        retry_count: their delivery count afterwards; negative: one more than before, or with ``just_id`` the same.
        just_id: the caller wants IDs instead of entries.
        force: entries that are not pending become so.
    """

    __slots__ = ("force", "just_id", "latest", "ms", "retry_count")

    def __init__(self, latest: int, ms: int) -> None:
        self.latest = latest
        self.ms = ms
        self.retry_count = -1
        self.just_id = False
        self.force = False

    def next_count(self, count: int) -> int:
        """The delivery count after a claim."""
        if self.retry_count >= 0:
            return self.retry_count
        return count if self.just_id else min(count + 1, MAX_COUNT)


class Claimed:
    """What a claim has done.

    Attributes:
        count: how many entries the consumer got.
        items: these entries as encoded arrays, in one or more parts; empty with ``just_id``.
        ids: their IDs in canonical form; only with ``just_id``.
        deleted: IDs that left the PEL because the stream has no such entry any more.
        changes: all of this in order, for replicas and the AOF. A deleted entry keeps the facts that it had; those of
            an entry without owner have the time ``UNOWNED_MS``.
        cursor: the first pending ID that an XAUTOCLAIM has not looked at, ``0-0`` if there is none.
    """

    __slots__ = ("changes", "count", "cursor", "deleted", "ids", "items")

    def __init__(self) -> None:
        self.count = 0
        self.items: list[bytes | bytearray] = []
        self.ids: list[bytes] = []
        self.deleted: list[bytes] = []
        self.changes: list[Change] = []
        self.cursor = b"0-0"
