"""Add many entries whose IDs are already chosen to a stream, for loaders and pipelines."""

from __future__ import annotations

from .chunk import MAX_BYTES, MAX_ENTRIES
from .chunk_codec import Encoded, Packed, entry_heads, joined
from .stream import NODE_MAX_BYTES, NODE_MAX_ENTRIES, Stream


def append_many(stream: Stream, ids: list[tuple[int, int]], fields: list[bytes]) -> None:
    """Append several entries: ``ids`` are ascending (milliseconds, sequence), ``fields`` their encoded fields."""
    append_encoded(stream, [ms for ms, _ in ids], [seq for _, seq in ids], joined(entry_heads(ids), fields))


def append_encoded(
    stream: Stream,
    ms: list[int],
    seq: list[int],
    encoded: Encoded,
    node_max_bytes: int = NODE_MAX_BYTES,
    node_max_entries: int = NODE_MAX_ENTRIES,
) -> None:
    """Append several encoded entries in ascending ID order; ``ms`` and ``seq`` hold the halves of their IDs."""
    entries, heads = encoded
    at = 0
    while at < len(entries):
        # Appending the first entry ensures that the last chunk has room.
        stream.append(ms[at] << 64 | seq[at], entries[at][heads[at] :], node_max_bytes, node_max_entries)
        at += 1
        chunk = stream.tail
        if chunk is None:
            continue
        stop = at + stream.chunk_entries - len(chunk.heads)
        some = entries[at:stop]
        if some and max(map(len, some)) * MAX_ENTRIES < MAX_BYTES:
            stream.extend_tail(chunk, some, heads[at:stop], ms[at:stop], seq[at:stop])
            at += len(some)
            stream.last_id = ms[at - 1] << 64 | seq[at - 1]


def append_packed(stream: Stream, chunk: Packed, first_id: int, last_id: int) -> None:
    """Add a packed chunk from a loader; its IDs are greater than all existing ones."""
    if stream.tail is not None:
        stream.tail.close()
        stream.tail = None
    stream.chunks.append(chunk)
    stream.firsts.append(first_id)
    stream.first_id, stream.last_id = stream.first_id or first_id, last_id
    stream.length += len(chunk)
    stream.entries_added += len(chunk)
