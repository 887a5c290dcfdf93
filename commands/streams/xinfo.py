"""XINFO: describe a stream, its groups and its consumers."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, ReplyError, wrong_subcommand_arguments
from ...storage.groups.consumer import NEVER, Consumer
from ...storage.groups.group import Group
from ...storage.groups.lag import entries_read_estimate, has_tombstone_from
from ...storage.streams import ids as stream_id
from ...storage.streams.idempotency import Idempotency
from ...storage.streams.ids import MAX_ID
from ...storage.streams.stream import Stream
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.usage import help_reply
from ..spec.versions import Compat
from . import specs
from .deferral import require_group, require_groups, require_nodes, require_order
from .v7_0 import estimate_7_0, has_tombstone_7_0
from .xgroup import no_consumer_group

_FULL_COUNT: Final = 10
_HELP: Final = (
    b"XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", b"CONSUMERS <key> <groupname>",
    b"    Show consumers of <groupname>.", b"GROUPS <key>", b"    Show the stream consumer groups.",
    b"STREAM <key> [FULL [COUNT <count>]", b"    Show information about the stream.", b"HELP",
    b"    Print this help.",
)  # fmt: skip


def _existing(client: Client, args: list[bytes]) -> Stream:
    stream = client.read_value(args[2], Stream)
    if stream is None:
        raise ReplyError(NO_SUCH_KEY)
    return stream


def _id(number: int) -> bytes:
    return replies.bulk(stream_id.encode(number))


def _known(number: int | None, resp: int) -> bytes:
    """Encode a number, or null if it is unknown."""
    return replies.null(resp) if number is None else replies.integer(number)


@handles(specs.XINFO_STREAM)
def xinfo_stream(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map of counters, the first and the last entry.

    With FULL it has entries, groups, consumers and pending entries instead.
    """
    stream = _existing(client, args)
    require_nodes(client, stream, are_far=stream.macro_nodes.is_behind)
    resp = client.resp
    if len(args) == 3:
        _, first = stream.range(0, MAX_ID, 1)
        _, last = stream.range_reverse(0, MAX_ID, 1)
        return replies.map_of(
            [
                *_counters(client, stream),
                (b"groups", replies.integer(len(stream.groups))),
                (b"first-entry", first or replies.null(resp)),
                (b"last-entry", last or replies.null(resp)),
            ],
            resp,
        )
    if len(args) > 6 or args[3].upper() != b"FULL":
        raise wrong_subcommand_arguments(args)
    count: int | None = _FULL_COUNT
    if len(args) > 4:
        if len(args) != 6 or args[4].upper() != b"COUNT":
            raise wrong_subcommand_arguments(args)
        count = parse_integer(args[5])
        if count < 0:
            count = _FULL_COUNT
        elif count == 0:
            count = None
    require_groups(client, stream)
    number, entries = stream.range(0, MAX_ID, count)
    groups = [
        _full_group(client, stream, name, group, count) for name, group in sorted(stream.groups.items())
    ]
    return replies.map_of(
        [
            *_counters(client, stream),
            (b"entries", replies.array_header(number) + entries),
            (b"groups", replies.array(groups)),
        ],
        resp,
    )


def _counters(client: Client, stream: Stream) -> list[tuple[bytes, bytes]]:
    found = [
        (b"length", replies.integer(stream.length)),
        (b"radix-tree-keys", replies.integer(stream.macro_nodes.count)),
        (b"radix-tree-nodes", replies.integer(_tree_nodes(client, stream))),
        (b"last-generated-id", _id(stream.last_id)),
        (b"max-deleted-entry-id", _id(stream.max_deleted_id)),
        (b"entries-added", replies.integer(stream.entries_added)),
        (b"recorded-first-entry-id", _id(stream.first_id)),
    ]
    return found + _idempotency(client, stream) if client.server.compat.supports_xadd_idmp else found


def _tree_nodes(client: Client, stream: Stream) -> int:
    """Return the node count of Redis' radix tree, with a leaf per key, but without nodes left unmerged by deletions."""
    size = stream.macro_nodes.tree_size
    if client.server.compat.counts_tree_leaves:
        return size
    return max(size - stream.macro_nodes.count, 1)


def _idempotency(client: Client, stream: Stream) -> list[tuple[bytes, bytes]]:
    keyspace = client.db.keyspace
    state = stream.idempotency or Idempotency(*keyspace.idempotency_defaults)
    state.expire(keyspace.now)
    return [
        (b"idmp-duration", replies.integer(state.duration)),
        (b"idmp-maxsize", replies.integer(state.maxsize)),
        (b"pids-tracked", replies.integer(len(state.producers))),
        (b"iids-tracked", replies.integer(state.tracked)),
        (b"iids-added", replies.integer(state.added)),
        (b"iids-duplicates", replies.integer(state.duplicates)),
    ]


def _full_group(client: Client, stream: Stream, name: bytes, group: Group, count: int | None) -> bytes:
    resp = client.resp
    for consumer in group.consumers.values():
        require_order(client, group, consumer)
    # One format per entry: calls for its parts took half the time of a reply with 100,000 entries.
    names = {each: replies.bulk(each.name) for each in (*group.consumers.values(), group.unowned)}
    pending = [
        b"*4\r\n$%d\r\n%b\r\n%b:%d\r\n:%d\r\n"
        % (len(entry.text), entry.text, names[entry.consumer], max(0, entry.ms), entry.count)
        for entry in group.pel.order.find(count=count)
    ]
    nacked = ((b"nacked-count", replies.integer(group.unowned.pending)),)
    consumers = [
        _full_consumer(client, group, consumer, count) for _, consumer in sorted(group.consumers.items())
    ]
    return replies.map_of(
        [
            (b"name", replies.bulk(name)),
            (b"last-delivered-id", _id(group.last_id)),
            (b"entries-read", _known(group.entries_read, resp)),
            (b"lag", _known(lag_of(client.server.compat, stream, group), resp)),
            (b"pel-count", replies.integer(len(group.pel))),
            *(nacked if client.server.compat.reports_nacked_count else ()),
            (b"pending", replies.array(pending)),
            (b"consumers", replies.array(consumers)),
        ],
        resp,
    )


def _full_consumer(client: Client, group: Group, consumer: Consumer, count: int | None) -> bytes:
    pending = [
        b"*3\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n" % (len(entry.text), entry.text, entry.ms, entry.count)
        for entry in group.pel.order_of(consumer).find(count=count)
    ]
    active = [(b"active-time", b":%d\r\n" % consumer.active_ms)]
    return replies.map_of(
        [
            (b"name", replies.bulk(consumer.name)),
            (b"seen-time", b":%d\r\n" % consumer.seen_ms),
            *(active if client.server.compat.reports_active_time else ()),
            (b"pel-count", replies.integer(consumer.pending)),
            (b"pending", replies.array(pending)),
        ],
        client.resp,
    )


@handles(specs.XINFO_GROUPS)
def xinfo_groups(client: Client, args: list[bytes]) -> bytes:
    """Reply with an array of one map per group, sorted by name."""
    stream = _existing(client, args)
    require_groups(client, stream)
    resp = client.resp
    return replies.array(
        [
            replies.map_of(
                [
                    (b"name", replies.bulk(name)),
                    (b"consumers", replies.integer(len(group.consumers))),
                    (b"pending", replies.integer(len(group.pel))),
                    (b"last-delivered-id", _id(group.last_id)),
                    (b"entries-read", _known(group.entries_read, resp)),
                    (b"lag", _known(lag_of(client.server.compat, stream, group), resp)),
                ],
                resp,
            )
            for name, group in sorted(stream.groups.items())
        ]
    )


@handles(specs.XINFO_CONSUMERS)
def xinfo_consumers(client: Client, args: list[bytes]) -> bytes:
    """Reply with an array of one map per consumer, sorted by name; idle and inactive are in milliseconds."""
    stream = _existing(client, args)
    group = stream.groups.get(args[3])
    if group is None:
        raise no_consumer_group(args[2], args[3])
    require_group(client, group)
    now = client.server.keyspace.now
    lines = []
    for name, consumer in sorted(group.consumers.items()):
        line = [
            (b"name", replies.bulk(name)),
            (b"pending", replies.integer(consumer.pending)),
            (b"idle", replies.integer(max(now - consumer.seen_ms, 0))),
        ]
        if client.server.compat.reports_active_time:
            active = consumer.active_ms
            line.append((b"inactive", replies.integer(NEVER if active == NEVER else max(now - active, 0))))
        lines.append(replies.map_of(line, client.resp))
    return replies.array(lines)


@handles(specs.XINFO_HELP)
def xinfo_help(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the lines of XINFO HELP."""
    return help_reply(_HELP, client.server.compat)


def lag_of(compat: Compat, stream: Stream, group: Group) -> int | None:
    """Return how many entries of the stream the group has not read, as the version computes it; None if unknown."""
    if compat.lags_by_position:
        return group.lag(stream)
    if not stream.entries_added:
        return 0
    read, last_id = group.entries_read, group.last_id
    if compat.counts_from_last_id:
        if read is None or has_tombstone_from(stream, last_id):
            read = entries_read_estimate(stream, last_id)
    elif read is None or has_tombstone_7_0(stream, last_id):
        read = estimate_7_0(stream, last_id)
    return None if read is None else stream.entries_added - read
