"""Repair values after a change of them was interrupted.

A change of a value takes several steps, and an exception may come between any two of them (out of memory, for one).
The repair reads the content of a value from one of its parts only, and derives all others from that: of a sorted set
the scores, of a stream the columns of its chunks, of a group the pages of the PEL.
"""

# ruff: noqa: SLF001 - after an interrupted change no method of the value is reliable

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..groups.group import Group
from ..streams.chunk import Chunk
from ..streams.macro_nodes import Nodes
from ..streams.stream import Stream
from . import dump_value, restore_value

if TYPE_CHECKING:
    from ..collections.base import Collection
    from ..collections.encoding_limits import Limits
    from ..groups.deliveries import Consumer


def healed(
    value: Stream | Collection, version: int, idempotency_defaults: tuple[int, int], limits: Limits
) -> tuple[Stream | Collection | None, bytes]:
    """Return a repaired value, and the payload from which RESTORE creates its equal; None if nothing is left.

    Args:
        value: it may be inconsistent. The caller must not use it any more, and stores the new one in its place.
        version: of the RDB format of the payload.
        idempotency_defaults: duration (seconds) and maxsize of a stream without its own.
        limits: sizes up to which collections have compact encodings.

    Raises:
        RdbError: its content makes no value.
    """
    if isinstance(value, Stream):
        _heal_stream(value)
    else:
        value.make_whole()
        if not len(value):
            return None, b""
    payload = dump_value(value, version=version, idempotency_defaults=idempotency_defaults)
    fresh = restore_value(payload)
    assert not isinstance(fresh, bytes)
    if not isinstance(fresh, Stream):
        fresh.fit(limits)
    return fresh, payload


def _heal_stream(stream: Stream) -> None:
    chunks = stream._chunks
    if chunks and type(chunks[-1]) is Chunk:  # only this class grows
        chunks[-1].even_out()
    stream._chunks = chunks = [chunk for chunk in chunks if len(chunk)]
    stream._firsts = [chunk.id_at(0) for chunk in chunks]
    stream._tail = None
    stream._nodes = Nodes(stream._nodes.max_bytes, stream._nodes.max_entries)
    stream.length = sum(map(len, chunks))
    stream.first_id = stream._firsts[0] if chunks else 0
    stream.last_id = max(stream.last_id, stream.last_entry_id)
    stream.entries_added = max(stream.entries_added, stream.length)
    stream.groups = {name: _whole_group(group) for name, group in stream.groups.items()}
    if stream.idempotency is not None:
        producers = stream.idempotency.producers
        for pid in [pid for pid, known in producers.items() if not known]:
            del producers[pid]


def _whole_group(group: Group) -> Group:
    twin = Group(group.last_id, group.entries_read)
    for consumer in group.consumers.values():
        twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
    pending: dict[int, tuple[Consumer, int, int]] = {}
    for number, block in group.pel.listed():
        owner = block.consumer
        if owner is group.unowned:
            pending[number] = twin.unowned, block.ms, block.count
        elif group.consumers.get(owner.name) is owner:
            pending[number] = twin.consumers[owner.name], block.ms, block.count
    deque(twin.fill(sorted(pending.items())), 0)
    return twin
