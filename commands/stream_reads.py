"""Reading forward: XREAD and XREADGROUP, blocking or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol import replies
from ..protocol.errors import SYNTAX, ReplyError
from ..storage import stream_id
from ..storage.group import MAX_COUNT
from ..storage.stream_id import MAX_ID
from .arguments import INT64_MAX, parse_integer
from .group_effects import (
    EMPTY_READ_STATES_NEW_CONSUMER,
    NEW_CONSUMER_BEFORE_SETID,
    new_consumer,
    no_such_group,
    propagate_consumer,
    propagate_position,
    propagate_read,
)
from .stream_ids import parse_id
from .syntax import streams as syntax
from .table import KeySpec, command

if TYPE_CHECKING:
    from ..storage.blocks import Consumer
    from ..storage.group import Group
    from ..storage.stream import Stream
    from .client import Client

_XREAD_UNBALANCED: Final = (
    b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
)
_XREADGROUP_UNBALANCED: Final = (
    b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
)
_GREATER_IN_XREAD: Final = (
    b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
)
_MEANINGLESS: Final = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)
_NOT_A_TIMEOUT: Final = b"ERR timeout is not an integer or out of range"


class ReadOptions:
    """The words before the keys.

    Attributes:
        count: at most so many entries from each stream, None for all.
        block: milliseconds to wait, 0 for ever, None for not at all.
        group, consumer: who reads; None without GROUP.
        no_ack: delivered entries do not become pending.
        first_key: index of the first key; the IDs follow the keys.
        keys: how many keys there are.
    """

    __slots__ = ("block", "consumer", "count", "first_key", "group", "keys", "no_ack")

    def __init__(
        self,
        count: int | None,
        block: int | None,
        group: bytes | None,
        consumer: bytes,
        no_ack: bool,
        first_key: int,
        keys: int,
    ) -> None:
        self.count = count
        self.block = block
        self.group = group
        self.consumer = consumer
        self.no_ack = no_ack
        self.first_key = first_key
        self.keys = keys


def _parse_options(args: list[bytes], now: int, *, grouped: bool) -> ReadOptions:
    count: int | None = None
    block: int | None = None
    group: bytes | None = None
    consumer = b""
    no_ack = False
    words = len(args)
    at = 1
    while at < words:
        name = args[at]
        if name not in _OPTION_WORDS:  # nearly always sent in upper case
            name = name.upper()
        at += 1
        more = words - at
        if name == b"STREAMS" and more:
            if more % 2:
                raise ReplyError(_XREADGROUP_UNBALANCED if grouped else _XREAD_UNBALANCED)
            if grouped and group is None:
                break
            return ReadOptions(count, block, group, consumer, no_ack, at, more // 2)
        if name == b"COUNT" and more:
            number = parse_integer(args[at])
            count = number if number > 0 else None
            at += 1
        elif name == b"BLOCK" and more:
            block = _timeout(args[at], now)
            at += 1
        elif name == b"GROUP" and more >= 2:
            if not grouped:
                raise _only_for_groups(name)
            group = args[at]
            consumer = args[at + 1]
            at += 2
        elif name == b"NOACK":
            if not grouped:
                raise _only_for_groups(name)
            no_ack = True
        else:
            raise ReplyError(SYNTAX)
    else:
        raise ReplyError(SYNTAX)
    raise ReplyError(b"ERR Missing GROUP option for XREADGROUP")


_OPTION_WORDS: Final = frozenset((b"STREAMS", b"COUNT", b"BLOCK", b"GROUP", b"NOACK"))


def _only_for_groups(option: bytes) -> ReplyError:
    return ReplyError(
        b"ERR The %b option is only supported by XREADGROUP. You called XREAD instead." % option
    )


def _timeout(word: bytes, now: int) -> int:
    timeout = parse_integer(word, _NOT_A_TIMEOUT)
    if timeout < 0:
        raise ReplyError(b"ERR timeout is negative")
    if timeout > INT64_MAX - now:
        raise ReplyError(b"ERR timeout is out of range")
    return timeout


def find_keys(argv: list[bytes]) -> list[int]:
    """The key positions of XREAD and XREADGROUP.

    The options are walked, for a group, a consumer or a key may be called STREAMS. Where that leads nowhere the
    first STREAMS counts, as the key specification says; of an odd number of words after it the smaller half.
    """
    words = len(argv)
    at = 1
    while at < words:
        name = argv[at].upper()
        if name in {b"BLOCK", b"COUNT"}:
            at += 2
        elif name == b"GROUP":
            at += 3
        elif name == b"NOACK":
            at += 1
        elif name == b"STREAMS":
            break
        else:
            start = 4 if argv[0].upper() == b"XREADGROUP" else 1
            at = next((i for i in range(start, words) if argv[i].upper() == b"STREAMS"), words)
            break
    return list(range(at + 1, at + 1 + (words - at - 1) // 2))


def _key_specs(start: int) -> tuple[KeySpec, ...]:
    return (KeySpec(("RO", "access"), ("keyword", "STREAMS", start), ("range", -1, 1, 2)),)


# XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
@command(
    "XREAD",
    arity=-4,
    flags="readonly blocking movablekeys",
    categories="stream",
    keys=_key_specs(1),
    key_finder=find_keys,
    since="5.0.0",
    group="stream",
    complexity="O(M) for each stream, with M being the number of entries answered.",
    summary="Answers entries after given IDs from several streams, or waits for them.",
    arguments=syntax.XREAD,
)
def xread(client: Client, args: list[bytes]) -> bytes | None:
    """Read what is newer than the given IDs; ``$`` is now, ``+`` the last entry itself."""
    keyspace = client.server.keyspace
    options = _parse_options(args, keyspace.now, grouped=False)
    first, keys = options.first_key, options.keys
    plan: list[tuple[Stream | None, int]] = []
    for at in range(first, first + keys):
        stream = client.read_stream(args[at])
        word = args[at + keys]
        if word == b"$":
            after = 0 if stream is None else stream.last_id
        elif word == b"+":
            after = 0 if stream is None or not stream.length else _last_entry(stream) - 1
        elif word == b">":
            raise ReplyError(_GREATER_IN_XREAD)
        else:
            after = parse_id(word)
        plan.append((stream, after))

    parts: list[bytes] = []
    for at, (stream, after) in enumerate(plan, first):
        if stream is None:
            keyspace.misses += 1  # Redis looks every key up a second time
            continue
        keyspace.hits += 1
        if after < stream.last_id:
            number, entries = stream.range(after + 1, MAX_ID, options.count)
            if number:
                parts.append(_part(client.resp, args[at], number, entries))
    if parts:
        return _reply(client.resp, parts)
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    again = args
    if b"$" in args[first + keys :]:
        again = args[: first + keys]
        again += [
            stream_id.encode(after) if word == b"$" else word
            for word, (_, after) in zip(args[first + keys :], plan, strict=True)
        ]
    client.block(args[first : first + keys], options.block, again)
    return None


def _last_entry(stream: Stream) -> int:
    """The ID of the last entry of a stream that is not empty."""
    if stream.contains(stream.last_id):
        return stream.last_id
    _, entry = stream.range_reverse(0, MAX_ID, 1)
    return stream_id.parse(entry.split(b"\r\n", 3)[2])


# XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]
@command(
    "XREADGROUP",
    arity=-7,
    flags="write blocking movablekeys",
    categories="stream",
    keys=_key_specs(4),
    key_finder=find_keys,
    since="5.0.0",
    group="stream",
    complexity="O(M) for each stream, with M being the number of entries answered.",
    summary="Delivers new entries of several streams to a consumer of a group, or answers what it has pending.",
    arguments=syntax.XREADGROUP,
)
def xreadgroup(client: Client, args: list[bytes]) -> bytes | None:
    """Deliver new entries (``>``) or answer the consumer's own pending ones after an ID.

    Nothing is delivered from any stream if one key is refused. The consumer is created on each of them even if
    nothing is delivered.
    """
    keyspace = client.server.keyspace
    now = keyspace.now
    options = _parse_options(args, now, grouped=True)
    first, keys = options.first_key, options.keys
    name = options.group
    assert name is not None
    plan: list[tuple[Stream, Group, int | None]] = []
    for at in range(first, first + keys):
        stream = client.read_stream(args[at])
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            raise no_such_group(args[at], name, b" in XREADGROUP with GROUP option")
        word = args[at + keys]
        after: int | None = None
        if word != b">":
            if word in {b"$", b"+"}:
                raise ReplyError(_MEANINGLESS % (word, word))
            after = parse_id(word)
            if after == MAX_ID:  # which is how Redis writes down `>`
                after = None
        plan.append((stream, group, after))

    parts: list[bytes] = []
    for at, (stream, group, after) in enumerate(plan, first):
        keyspace.hits += 1  # Redis looks every key up a second time
        key = args[at]
        consumer = group.consumers.get(options.consumer)
        is_new = consumer is None
        if consumer is None:
            consumer = new_consumer(client, key, group, options.consumer)
        consumer.seen_ms = now
        if after is None:
            number, entries = _deliver(client, key, stream, group, consumer, options, is_new=is_new)
            if not number:
                continue
        else:
            if is_new:
                _propagate_new(client, key, consumer, options)
            number, entries = _history(client, stream, group, consumer, after, options.count)
        keyspace.dirty += 1
        parts.append(_part(client.resp, key, number, entries))
    if parts:
        return _reply(client.resp, parts)
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    client.block(args[first : first + keys], options.block, args, on_missing=True)
    return None


def _deliver(
    client: Client,
    key: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    options: ReadOptions,
    *,
    is_new: bool,
) -> tuple[int, bytes]:
    """Deliver new entries to the consumer; answers how many, and the entries."""
    before = group.last_id
    texts, entries, last = stream.take_after(before, options.count)
    if not texts:
        if is_new:
            _propagate_new(client, key, consumer, options)
        return 0, b""
    group.advance(stream, texts, last)
    no_ack = options.no_ack
    if not no_ack:
        now = client.server.keyspace.now
        group.deliver(consumer, texts, before, last, now)
        consumer.active_ms = now
    if client.server.propagation.active:
        name = options.group
        assert name is not None
        if no_ack:
            if is_new and NEW_CONSUMER_BEFORE_SETID:
                propagate_consumer(client, key, name, consumer.name)
            propagate_position(client, key, name, group)
            if is_new and not NEW_CONSUMER_BEFORE_SETID:
                propagate_consumer(client, key, name, consumer.name)
        else:
            propagate_read(client, key, name, consumer.name, texts, before)
            propagate_position(client, key, name, group)
    return len(texts), entries


def _propagate_new(client: Client, key: bytes, consumer: Consumer, options: ReadOptions) -> None:
    """A consumer was created and nothing delivered that would say so."""
    if options.no_ack or EMPTY_READ_STATES_NEW_CONSUMER:
        assert options.group is not None
        propagate_consumer(client, key, options.group, consumer.name)


def _history(
    client: Client, stream: Stream, group: Group, consumer: Consumer, after: int, count: int | None
) -> tuple[int, bytes]:
    """The consumer's own pending entries after an ID; they count as delivered once more, which nobody else is told.

    An entry that is no longer in the stream is answered as its id and a null, and stays as it is.
    """
    ids = group.pending_ids(after + 1, MAX_ID, count, consumer)
    if not ids:
        return 0, b""
    texts, entries, _ = stream.take_after(stream_id.parse(ids[0]) - 1, len(ids))
    living = ids
    if texts != ids:
        living = []
        items: list[bytes] = []
        null = replies.null_array(client.resp)
        for text in ids:
            entry = stream.entry(stream_id.parse(text))
            if entry is None:
                entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, null)
            else:
                living.append(text)
            items.append(entry)
        entries = b"".join(items)
    by_count: dict[int, list[bytes]] = {}
    pel = group.pel
    for text in living:
        by_count.setdefault(min(pel[text].count + 1, MAX_COUNT), []).append(text)
    for times, some in by_count.items():
        group.reassign(consumer, some, client.server.keyspace.now, times)
    return len(ids), entries


def _part(resp: int, key: bytes, number: int, entries: bytes) -> bytes:
    """One stream's part of the reply: a pair, in RESP3 a key and value of the map."""
    if resp == 3:
        return b"$%d\r\n%b\r\n*%d\r\n%b" % (len(key), key, number, entries)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(key), key, number, entries)


def _reply(resp: int, parts: list[bytes]) -> bytes:
    header = b"%%%d\r\n" % len(parts) if resp == 3 else replies.array_header(len(parts))
    return header + (parts[0] if len(parts) == 1 else b"".join(parts))
