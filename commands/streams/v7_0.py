"""The behaviour of Redis 7.0: XREADGROUP, the service of blocked readers, and the estimated entries-read counter."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.groups.consumer import Consumer
from ...storage.groups.group import Group
from ...storage.groups.lag import entries_read_estimate, has_tombstone_from
from ...storage.streams.chunk import ChunkRun, ids_in, texts_in
from ...storage.streams.ids import MAX_COUNT, MAX_ID, parse
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .group_propagation import new_consumer, propagate_consumer, propagate_position, propagate_read
from .lookup import find_group
from .read_options import HEADS_OF_ONE, REPLY_HEADS, STREAM_HEADS, ReadOptions, parse_options
from .xreadgroup import MEANINGLESS, NO_GROUP_TO_READ, history, require_orders

KEY_GONE: Final = b"UNBLOCKED the stream key no longer exists"
GROUP_GONE: Final = b"NOGROUP the consumer group this client was blocked on no longer exists"


@handles(specs.XREADGROUP, until="7.2")
def xreadgroup_7_0(client: Client, args: list[bytes]) -> bytes | None:
    """XREADGROUP as in 7.0: a ``>`` that finds nothing neither creates the consumer nor sets its seen-time."""
    keyspace = client.server.keyspace
    options = parse_options(client, args, grouped=True)
    first, keys = options.first_key, options.keys
    plan: list[tuple[Stream, Group, int | None]] = []
    for at in range(first, first + keys):
        assert options.group is not None
        stream, group = find_group(client, args[at], options.group, NO_GROUP_TO_READ)
        after = _position(args[at + keys])
        require_orders(client, stream, group, options, after)
        plan.append((stream, group, after))

    head = STREAM_HEADS[client.resp]
    parts: list[bytes] = []
    for at, (stream, group, after) in enumerate(plan, first):
        client.db.read_again(args[at], stream)
        key = args[at]
        if after is None and not (stream.length and stream.last_entry_id > group.last_id):
            continue
        consumer = _consumer(client, key, group, options)
        if after is None:
            number, entries = _deliver(client, key, stream, group, consumer, options)
        else:
            items = history(client, stream, group, consumer, after, options)
            number, entries = len(items), b"".join(items)
        keyspace.dirty += 1
        parts += (head % (len(key), key, number), entries)
    if parts:
        return b"".join((REPLY_HEADS[client.resp] % (len(parts) // 2), *parts))
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    client.server.blocking.block(client, args[first : first + keys], options.block, args, on_missing=True)
    return None


def _position(word: bytes) -> int | None:
    """Return the ID after which the history begins; None for new entries."""
    if word == b">":
        return None
    if word == b"$":
        raise ReplyError(MEANINGLESS % (word, word))
    after = parse(word)
    return None if after == MAX_ID else after


def _consumer(client: Client, key: bytes, group: Group, options: ReadOptions) -> Consumer:
    consumer = group.consumers.get(options.consumer)
    if consumer is None:
        assert options.group is not None
        consumer = new_consumer(client, key, group, options.consumer)
        if options.no_ack:
            propagate_consumer(client, key, options.group, options.consumer)
    consumer.see(client.server.keyspace.now)
    return consumer


def _deliver(
    client: Client, key: bytes, stream: Stream, group: Group, consumer: Consumer, options: ReadOptions
) -> tuple[int, bytes]:
    """Deliver new entries to the consumer; return their number, and the entries."""
    before = group.last_id
    pieces, parts, last = stream.entries_after(before, options.count)
    if not pieces:
        return 0, b""
    texts = texts_in(pieces, parts)
    advance_7_0(group, stream, pieces, last)
    if not options.no_ack:
        now = client.server.keyspace.now
        group.pel.deliver(consumer, pieces, texts, before, last, now)
        consumer.receive(now)
    if client.server.propagation.active:
        assert options.group is not None
        if options.no_ack:
            propagate_position(client, key, options.group, group)
        else:
            propagate_read(client, key, options.group, group, consumer.name, texts, before)
    return len(texts), b"".join(parts)


def serve_7_0(client: Client, args: list[bytes], key: bytes) -> bytes | None:
    """Return the encoded reply to a blocked XREAD or XREADGROUP whose key ``key`` has changed; None if it keeps waiting.

    Only the changed key is read. If the stream has grown, the client gets a reply even if the new entries are gone.

    Raises ReplyError: the key or the group of an XREADGROUP is gone.
    """
    grouped = args[0].upper() == b"XREADGROUP"
    options = parse_options(client, args, grouped=grouped)
    first, keys = options.first_key, options.keys
    stream = client.db.peek(key)
    if type(stream) is not Stream:
        if grouped:
            raise ReplyError(KEY_GONE)
        return None
    if grouped:
        assert options.group is not None
        group = stream.groups.get(options.group)
        if group is None:
            raise ReplyError(GROUP_GONE)
        if stream.last_id <= group.last_id:
            return None
        consumer = _consumer(client, key, group, options)
        number, entries = _deliver(client, key, stream, group, consumer, options)
    else:
        # If a key is named several times, the last one counts, because 7.0 kept the IDs by key.
        at = max(at for at in range(first, first + keys) if args[at] == key)
        after = parse(args[at + keys])
        if stream.last_id <= after:
            return None
        number, entries = stream.range(after + 1, MAX_ID, options.count)
    return HEADS_OF_ONE[client.resp] % (len(key), key, number) + entries


def advance_7_0(group: Group, stream: Stream, pieces: list[ChunkRun], last: int) -> None:
    """Like ``Group.advance`` in 7.0: only deletions at or after an entry make the entries-read counter unknown."""
    read = group.entries_read
    for entry in ids_in(pieces):
        if read is not None and not has_tombstone_7_0(stream, entry):
            read = min(read + 1, MAX_COUNT)
        elif stream.entries_added:
            read = estimate_7_0(stream, entry)
    group.entries_read = read
    group.last_id = last


def estimate_7_0(stream: Stream, stream_id: int) -> int | None:
    """Return how many entries were ever added up to an ID, inclusive; None if that is unknown.

    If all deletions precede the first entry, 7.0 counts all deleted entries for any ID before the last deletion.
    """
    if stream.length and 0 < stream_id < stream.max_deleted_id < stream.first_id:
        return stream.entries_added - stream.length
    return entries_read_estimate(stream, stream_id)


def has_tombstone_7_0(stream: Stream, stream_id: int) -> bool:
    """Return True if an entry at or after an ID, inclusive, was deleted; 7.0 ignores deletions before the first entry."""
    return stream.first_id <= stream.max_deleted_id and has_tombstone_from(stream, stream_id)
