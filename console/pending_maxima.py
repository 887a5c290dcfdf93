"""Find the longest idle time and the highest delivery count in the whole PEL of each group, a few pages per round."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from . import replies
from .connection import Command, Link, command
from .model import Group, PendingEntry, Stream

PAGE: Final = 1_000  # pending entries of one XPENDING: about a millisecond of a server
ROUND: Final = 10_000  # pending entries per round, for all groups together
TOGETHER: Final = 5_000  # pending entries per batch of commands, so that other clients are served in between
FIRST: Final = 400_000  # pending entries per round of groups that were never read, the first page of each
KEPT: Final = 16  # worst entries of each kind to remember, for when the worst is acknowledged

Place = tuple[bytes, bytes]  # a stream's key and a group


def after(entry_id: str) -> str:
    """Return the next ID, to start a range after ``entry_id``: servers before 6.2 have no exclusive ranges."""
    milliseconds, _, sequence = entry_id.partition("-")
    if int(sequence or 0) + 1 < 1 << 64:
        return f"{milliseconds}-{int(sequence or 0) + 1}"
    return f"{int(milliseconds) + 1}-0"


@dataclass(slots=True)
class _Lap:
    """One walk over a PEL."""

    start: str = "-"  # the ID at which the next page starts
    looked: int = 0  # number of entries read so far
    # (delivery time, ID) of the entries with the longest idle times; ``most``: (-delivery count, ID).
    oldest: list[tuple[int, str]] = field(default_factory=list)
    most: list[tuple[int, str]] = field(default_factory=list)

    def take(self, page: Iterable[PendingEntry], now: int) -> None:
        """Keep a page's entries if they are among the longest idle or most often delivered; ``now`` is in milliseconds."""
        owned = [entry for entry in page if entry.idle >= 0]
        self.oldest = heapq.nsmallest(
            KEPT, [*self.oldest, *((now - entry.idle, entry.id) for entry in owned)]
        )
        self.most = heapq.nsmallest(KEPT, [*self.most, *((-entry.deliveries, entry.id) for entry in page)])

    def ids(self) -> dict[str, None]:
        """Return the IDs of the kept entries."""
        return dict.fromkeys(entry_id for _, entry_id in (*self.oldest, *self.most))


@dataclass(slots=True)
class _Walk:
    """What is known about a PEL: the last complete lap, and the current one.

    An entry becomes the oldest only by growing old, so between two laps the oldest is one of the last lap's oldest.
    Only a claim with an explicit IDLE, and new deliveries, are noticed no earlier than in the next lap.
    """

    lap: _Lap = field(default_factory=_Lap)
    first: str = ""
    last: _Lap | None = None


class Backlogs:
    """Reads the PELs of all groups, a part per round."""

    def __init__(self) -> None:
        self._walks: dict[Place, _Walk] = {}
        self._turn = 0
        self.first_look = 0.0  # seconds that the last round took for groups never read before

    def forget(self) -> None:
        """Forget all findings in PELs, because another server answers now."""
        self._walks.clear()

    async def read(self, link: Link, streams: dict[bytes, Stream], now: int) -> dict[bytes, Stream]:
        """Read some more of each PEL, within the budget of a round; return the streams with the findings in their groups.

        A PEL of one page is read completely each time. In a larger one each round rereads the worst entries, and
        reads the next pages.
        """
        groups = {
            (stream.key, group.name): group
            for stream in streams.values()
            for group in stream.groups
            if group.pending
        }
        self._walks = {place: self._walks.get(place) or _Walk() for place in groups}
        order = list(groups)
        known: dict[Place, dict[str, PendingEntry]] = {}
        new = [place for place in order if not groups[place].read_at]
        self.first_look = 0.0
        if sum(min(groups[place].pending, PAGE) for place in new) > ROUND:
            began = time.monotonic()
            await self._go_on(link, _first(new, groups), groups, known, now)
            self.first_look = time.monotonic() - began
            order = [place for place in order if place not in known]
        start = self._turn % len(order) if order else 0
        order = order[start:] + order[:start]
        left, visited = ROUND, 0
        again: list[Place] = order
        while again and left > 0:
            chosen: list[Place] = []
            for place in again:
                if left <= 0:
                    break
                left -= min(groups[place].pending, PAGE)
                chosen.append(place)
            visited = max(visited, len(chosen))
            await self._go_on(link, chosen, groups, known, now)
            again = [place for place in chosen if self._walks[place].lap.looked]
        self._turn += visited
        await self._ask_again(link, list(known), groups, known)
        return {
            key: replace(
                stream,
                groups=tuple(
                    self._told(group, known.get((key, group.name)), (key, group.name), now)
                    for group in stream.groups
                ),
            )
            for key, stream in streams.items()
        }

    async def _go_on(
        self,
        link: Link,
        places: list[Place],
        groups: dict[Place, Group],
        known: dict[Place, dict[str, PendingEntry]],
        now: int,
    ) -> None:
        for batch in _batches(places, groups):
            got = await link.send(
                [
                    command("XPENDING", key, name, self._walks[key, name].lap.start, "+", PAGE)
                    for key, name in batch
                ]
            )
            for place, reply in zip(batch, got, strict=True):
                walk, page = self._walks[place], replies.pending(reply)
                if walk.lap.start == "-" and page:
                    walk.first = page[0].id
                walk.lap.take(page, now)
                walk.lap.looked += len(page)
                known.setdefault(place, {}).update((entry.id, entry) for entry in page)
                if len(page) < PAGE:
                    walk.last, walk.lap = walk.lap, _Lap()
                else:
                    walk.lap.start = after(page[-1].id)

    async def _ask_again(
        self,
        link: Link,
        places: list[Place],
        groups: dict[Place, Group],
        known: dict[Place, dict[str, PendingEntry]],
    ) -> None:
        """Reread the worst entries that this round has not read."""
        asked: list[tuple[Place, str]] = []
        for place in places:
            if groups[place].pending > PAGE:
                walk = self._walks[place]
                ids = walk.lap.ids() | (walk.last.ids() if walk.last is not None else {})
                asked += [(place, entry_id) for entry_id in ids if entry_id not in known[place]]
        asked = asked[: ROUND // 10]
        commands: list[Command] = [command("XPENDING", *place, one, one, 1) for place, one in asked]
        for at in range(0, len(commands), 200):
            got = await link.send(commands[at : at + 200])
            for (place, _), reply in zip(asked[at:], got, strict=False):
                known[place].update((entry.id, entry) for entry in replies.pending(reply))

    def _told(self, group: Group, known: dict[str, PendingEntry] | None, place: Place, now: int) -> Group:
        if not group.pending:
            return replace(group, oldest_id="", oldest_idle=None, most_id="", most_deliveries=0, looked=None)
        if known is None:  # not reread in this round: the known entries just grow older
            grown = max(0, now - group.read_at)
            return (
                group
                if group.oldest_idle is None
                else replace(group, oldest_idle=group.oldest_idle + grown, read_at=now)
            )
        walk = self._walks[place]
        if walk.last is not None and group.pending > PAGE and not _holds(walk.last, known, now):
            walk.last = None
        owned = [entry for entry in known.values() if entry.idle >= 0]
        oldest = max(owned, key=lambda entry: entry.idle, default=None)
        most = max(known.values(), key=lambda entry: entry.deliveries, default=None)
        return replace(
            group,
            oldest_id=oldest.id if oldest else "",
            oldest_idle=oldest.idle if oldest else None,
            most_id=most.id if most else "",
            most_deliveries=most.deliveries if most else 0,
            looked=None if walk.last is not None else walk.lap.looked,
            read_at=now,
            first_pending=walk.first,
        )


def _holds(lap: _Lap, known: dict[str, PendingEntry], now: int) -> bool:
    """Return True if the worst entries of a lap are still the worst (one of each kind unchanged, the others no worse)."""
    still = any(
        entry_id in known and now - known[entry_id].idle <= since + 1_000 for since, entry_id in lap.oldest
    )
    return (still or not lap.oldest) and any(entry_id in known for _, entry_id in lap.most)


def _first(places: list[Place], groups: dict[Place, Group]) -> list[Place]:
    """Return the groups that this round may read for the first time."""
    left, found = FIRST, []
    for place in places:
        left -= min(groups[place].pending, PAGE)
        if left < 0:
            break
        found.append(place)
    return found


def _batches(places: list[Place], groups: dict[Place, Any]) -> Iterator[list[Place]]:
    batch: list[Place] = []
    size = 0
    for place in places:
        cost = min(groups[place].pending, PAGE)
        if batch and (size + cost > TOGETHER or len(batch) >= 400):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += cost
    if batch:
        yield batch
