"""Operations on a stream together with its groups: digest, memory, repair."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final

from ..streams.chunk import Chunk, DamagedError, opened
from ..streams.ids import MAX_U64
from ..streams.iteration import iter_entries
from ..streams.macro_nodes import MacroNodes
from ..streams.stream import Stream
from .group import Group
from .lag import written_entries_read

_number: Final = attrgetter("number")
_STREAM_BYTES: Final = 1000
_GROUP_BYTES: Final = 800
_CONSUMER_BYTES: Final = 250
_GROUPS: Final = 64  # number of groups measured; of more groups the first ones are a sample


def digest_parts(stream: Stream) -> Iterator[bytes]:
    """Yield a stream's content for a digest, without the seen-times of consumers, which the AOF lacks, too."""
    yield b"%d %d %d %d" % (stream.length, stream.last_id, stream.max_deleted_id, stream.entries_added)
    for _, text, fields in iter_entries(stream):
        yield text
        yield fields
    for name in sorted(stream.groups):
        yield name
        yield from _group_parts(stream, stream.groups[name])


def _group_parts(stream: Stream, group: Group) -> Iterator[bytes]:
    read = written_entries_read(stream, group.entries_read)
    yield b"%d %d" % (group.last_id, -1 if read is None else read)
    yield from sorted(group.consumers)
    for entry in group:
        yield b"%d %d %d" % (entry.number, entry.ms, entry.count)
        yield entry.consumer.name


def memory(stream: Stream, samples: int) -> int:
    """Estimate the memory of a stream with its groups in bytes, from ``samples`` chunks (0: all).

    A packed chunk counts with its packed size.
    """
    return _STREAM_BYTES + stream.memory(samples) + _groups_bytes(stream.groups, samples)


def _groups_bytes(groups: dict[bytes, Group], samples: int) -> int:
    if not samples or len(groups) <= _GROUPS:
        return sum(map(_group_bytes, groups.values()))
    return sum(map(_group_bytes, islice(groups.values(), _GROUPS))) * len(groups) // _GROUPS


def _group_bytes(group: Group) -> int:
    return _GROUP_BYTES + group.counts[0] * _CONSUMER_BYTES + group.memory


def rewritten_bytes(stream: Stream, key: bytes) -> int:
    """Estimate the length in bytes of the commands that recreate the stream in a rewritten AOF."""
    entries = stream.payload_bytes + stream.length * (len(key) + 10)
    return entries + sum(
        group.counts[1] * (len(key) + len(name) + 130) for name, group in stream.groups.items()
    )


def make_whole(stream: Stream) -> bool:
    """Repair a stream after an interrupted change, from the columns of its chunks and the entries of its PELs.

    Return True: something is always left, because a stream may be empty.
    """
    chunks, firsts, nodes = stream.chunks, stream.firsts, stream.macro_nodes
    last = chunks[-1] if chunks else None
    if type(last) is Chunk:  # packed chunks do not grow
        last.even_out()
    whole = list(_whole_chunks(stream))
    chunks[:] = whole
    firsts[:] = [chunk.id_at(0) for chunk in whole]
    stream.macro_nodes = MacroNodes(chunks, firsts, nodes.max_bytes, nodes.max_entries)
    stream.length = sum(map(len, chunks))
    stream.first_id = firsts[0] if chunks else 0
    stream.last_id = max(stream.last_id, stream.last_entry_id)
    stream.entries_added = max(stream.entries_added, stream.length)
    stream.groups = {name: _whole_group(group) for name, group in stream.groups.items()}
    if stream.idempotency is not None:
        producers = stream.idempotency.producers
        for pid in [pid for pid, known in producers.items() if not known]:
            del producers[pid]
    return True  # a stream may be empty


def _whole_chunks(stream: Stream) -> Iterator[Chunk]:
    """Yield the non-empty chunks, unpacked, because macro nodes are rebuilt from them. Damaged chunks are lost."""
    for each in stream.chunks:
        try:
            chunk = opened(each)
        except DamagedError:
            continue
        chunk.packed = None
        if len(chunk):
            yield chunk


def _whole_group(group: Group) -> Group:
    twin = Group(group.last_id, group.entries_read)
    owners = {group.unowned: twin.unowned}
    for consumer in group.consumers.values():
        owners[consumer] = twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
    whole = sorted([entry for entry in group.pel.by_text.values() if entry.consumer in owners], key=_number)
    halves = [half for entry in whole for half in (entry.number >> 64, entry.number & MAX_U64)]
    consumers = [owners[entry.consumer] for entry in whole]
    rows = (halves, consumers, [entry.ms for entry in whole], [entry.count for entry in whole])
    deque(twin.pel.fill([rows]), 0)
    return twin
