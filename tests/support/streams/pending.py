"""Pending entries without a stream: what a test says in IDs, and what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rillet.storage.groups.pel_pages import texts_of
from rillet.storage.groups.pel_search import find_idle, find_pending
from rillet.storage.streams.chunk import MAX_ENTRIES, Chunk, ids_in, length_of, texts_in
from rillet.storage.streams.ids import MAX_U64, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rillet.storage.groups.group import Group
    from rillet.storage.groups.pel_pages import PelRuns, Place
    from rillet.storage.streams.chunk import ChunkRun
    from rillet.storage.streams.stream import Stream


def pieces_of(numbers: list[int]) -> list[ChunkRun]:
    """Entries with these IDs, next to each other in chunks as those of a stream."""
    pieces: list[ChunkRun] = []
    for at in range(0, len(numbers), MAX_ENTRIES):
        chunk = Chunk()
        some = numbers[at : at + MAX_ENTRIES]
        chunk.ms.extend(number >> 64 for number in some)
        chunk.seq.extend(number & MAX_U64 for number in some)
        pieces.append((chunk, 0, len(some)))
    return pieces


def taken(stream: Stream, after: int, count: int | None = None) -> tuple[list[bytes], bytes, int]:
    """What ``Stream.entries_after`` returns, the IDs as texts."""
    pieces, raw, last = stream.entries_after(after, count)
    found = texts_in(pieces, raw)
    assert length_of(pieces) == len(found)
    assert list(map(encode, ids_in(pieces))) == found
    return found, b"".join(raw), last


def places_of(group: Group, numbers: list[int]) -> PelRuns:
    """Where these entries stand, which are all pending."""
    found = [group.pel.place(number) for number in numbers]
    return [(place[0], (place[1],)) for place in found if place is not None]


def pending_ids(group: Group, *bounds, **options) -> list[bytes]:
    return texts_of(find_pending(group, *bounds, **options))


def idle_ids(group: Group, *bounds, **options) -> list[bytes]:
    return texts_of(find_idle(group, *bounds, **options))


def texts(places: Iterator[Place]) -> list[bytes]:
    return [page.text(at) for page, at in places]


class Watched(list):
    """The batches of a page, which count how many of them were looked at."""

    asked = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        Watched.asked += len(found) if isinstance(at, slice) else 1
        return found


def looks(group: Group, search: Callable[[], object]) -> int:
    """How many places in the PEL a search looks at."""
    Watched.asked = 0
    for page in group.pel._pages:
        page.batches = Watched(page.batches)
    search()
    return Watched.asked
