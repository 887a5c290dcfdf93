"""Adding many entries to a stream whose IDs are already chosen, as files and pipelines bring them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chunk import MAX_BYTES, MAX_ENTRIES
from .chunk_codec import entry_heads
from .stream import NODE_MAX_BYTES, NODE_MAX_ENTRIES

if TYPE_CHECKING:
    from .chunk_codec import Packed
    from .stream import Stream


def append_many(
    stream: Stream,
    ids: list[tuple[int, int]],
    fields: list[bytes],
    node_max_bytes: int = NODE_MAX_BYTES,
    node_max_entries: int = NODE_MAX_ENTRIES,
) -> None:
    """As ``Stream.append`` for several entries: their IDs, ms and sequence, ascend."""
    at = 0
    while at < len(ids):
        # The first one sees to it that there is a chunk with room in it.
        ms, seq = ids[at]
        stream.append(ms << 64 | seq, fields[at], node_max_bytes, node_max_entries)
        at += 1
        chunk = stream.tail
        if chunk is None:
            continue
        stop = at + stream.tuning.chunk_entries - len(chunk.heads)
        some = fields[at:stop]
        if some and max(map(len, some)) * MAX_ENTRIES < MAX_BYTES:
            new = ids[at:stop]
            stream.extend_tail(chunk, entry_heads(new), some, [ms for ms, _ in new], [seq for _, seq in new])
            stream.last_id = new[-1][0] << 64 | new[-1][1]
            at += len(new)


def append_packed(stream: Stream, chunk: Packed, first_id: int, last_id: int) -> None:
    """Add a packed chunk, as a loader has it; its IDs are greater than all before."""
    if stream.tail is not None:
        stream.tail.close()
        stream.tail = None
    stream.chunks.append(chunk)
    stream.firsts.append(first_id)
    stream.first_id, stream.last_id = stream.first_id or first_id, last_id
    stream.length += len(chunk)
    stream.entries_added += len(chunk)
