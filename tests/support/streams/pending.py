"""Pending entries without a stream: what a test says in IDs, and what it asks."""

from rillet.storage.groups.consumer import Consumer
from rillet.storage.groups.group import Group
from rillet.storage.streams.chunk import MAX_ENTRIES, Chunk, ChunkRun, ids_in, length_of, texts_in
from rillet.storage.streams.ids import MAX_ID, MAX_U64, encode
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


def deliver(group: Group, consumer: Consumer, numbers: list[int], now: int) -> None:
    """New entries with these IDs, ascending, are delivered."""
    texts = list(map(encode, numbers))
    group.pel.deliver(consumer, pieces_of(numbers), texts, numbers[0] - 1, numbers[-1], now)


def acknowledge(group: Group, numbers: list[int]) -> int:
    return group.pel.acknowledge(map(encode, numbers))


def move(group: Group, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
    """Pending entries with these IDs get other facts."""
    for number in numbers:
        entry = group.pel.at(number)
        assert entry is not None
        group.pel.move(entry, consumer, ms, count)


def taken(stream: Stream, after: int, count: int | None = None) -> tuple[list[bytes], bytes, int]:
    """What ``Stream.entries_after`` returns, the IDs as texts."""
    pieces, raw, last = stream.entries_after(after, count)
    found = texts_in(pieces, raw)
    assert length_of(pieces) == len(found)
    assert list(map(encode, ids_in(pieces))) == found
    return found, b"".join(raw), last


def pending_ids(group: Group, *bounds, consumer: Consumer | None = None, **options) -> list[bytes]:
    """The IDs that ``Order.find`` finds, of everybody or of one consumer."""
    return [entry.text for entry in group.pel.order_of(consumer).find(*bounds, **options)]


def idle_ids(
    group: Group,
    latest: int,
    start: int = 0,
    end: int = MAX_ID,
    count: int | None = None,
    consumer: Consumer | None = None,
) -> list[bytes]:
    """The IDs that ``Pel.find_idle`` finds; it finds what a walk by ID does."""
    if count is None:
        count = len(group.pel)
    there = group.pel.order_of(consumer).find(start, end)
    found = [entry.text for entry in there if entry.ms <= latest][:count]
    idle = group.pel.find_idle(latest, start, end, count, consumer)
    assert [entry.text for entry in idle] == found
    return found


def given_back(group: Group) -> list[bytes]:
    """The IDs of the entries without owner, in turn."""
    return [entry.text for entry in group.pel.given_back(group.unowned)]
