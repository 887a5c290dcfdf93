"""Reading forward: XREAD and XREADGROUP, blocking or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.group import MAX_COUNT, Group
from ...storage.groups.pel_pages import blocks_of, one_by_one, texts_of
from ...storage.streams import ids as stream_id
from ...storage.streams.chunk import ids_in, length_of, texts_in
from ...storage.streams.ids import MAX_ID
from ...storage.streams.stream import Stream
from ..runtime.arguments import INT64_MAX, parse_integer
from ..runtime.deferral import settle_group
from ..spec.command import KeySpec, command
from . import specs as syntax
from .group_propagation import (
    new_consumer,
    no_such_group,
    propagate_consumer,
    propagate_position,
    propagate_read,
)
from .ids import parse_id
from .read_budget import Allowance, take_after
from .xreadgroup_claim import claim_idle, claimable_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...storage.groups.deliveries import Consumer
    from ..runtime.client import Client
    from ..spec.versions import Compat

_XREAD_UNBALANCED: Final = (
    b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
)
_XREADGROUP_UNBALANCED: Final = (
    b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
)
_GREATER_IN_XREAD: Final = (
    b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
)
MEANINGLESS: Final = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)
_UNBALANCED_7_0: Final = (
    b"ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
)
_NOT_A_TIMEOUT: Final = b"ERR timeout is not an integer or out of range"


class ReadOptions:
    """The words before the keys.

    Attributes:
        count: at most so many entries from each stream, None for all.
        block: milliseconds to wait, 0 for ever, None for not at all.
        group, consumer: who reads; None without GROUP.
        no_ack: delivered entries do not become pending.
        allowance: CLAIM, MAXCOUNT and MAXSIZE, None without any of them.
        first_key: index of the first key; the IDs follow the keys.
        keys: how many keys there are.
    """

    __slots__ = ("allowance", "block", "consumer", "count", "first_key", "group", "keys", "no_ack")

    def __init__(
        self,
        count: int | None,
        block: int | None,
        group: bytes | None,
        consumer: bytes,
        no_ack: bool,
        allowance: Allowance | None,
        first_key: int,
        keys: int,
    ) -> None:
        self.count = count
        self.block = block
        self.group = group
        self.consumer = consumer
        self.no_ack = no_ack
        self.allowance = allowance
        self.first_key = first_key
        self.keys = keys


def parse_options(client: Client, args: list[bytes], *, grouped: bool) -> ReadOptions:
    """The words of XREAD or XREADGROUP (``grouped``) up to the first key."""
    count: int | None = None
    block: int | None = None
    group: bytes | None = None
    consumer = b""
    no_ack = False
    newer: dict[bytes, int] | None = None
    words = len(args)
    if words == 9 and args[6] == b"STREAMS" and args[4] == b"COUNT" and args[1] == b"GROUP" and grouped:
        number = parse_integer(args[5])  # nearly always sent like this, or with BLOCK
        return ReadOptions(number if number > 0 else None, None, args[2], args[3], False, None, 7, 1)
    at = 1
    while at < words:
        name = args[at]
        if name not in _OPTION_WORDS:  # nearly always sent in upper case
            name = name.upper()
        at += 1
        more = words - at
        if name == b"STREAMS" and more:
            if more % 2:
                raise ReplyError(_unbalanced(client.server.compat, grouped=grouped))
            if grouped and group is None:
                break
            allowance = _allowance(newer, count) if newer else None
            return ReadOptions(count, block, group, consumer, no_ack, allowance, at, more // 2)
        if name == b"COUNT" and more:
            number = parse_integer(args[at])
            count = number if number > 0 else None
            at += 1
        elif name == b"BLOCK" and more:
            block = _timeout(client, args[at])
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
        elif name in _NEWER and more and client.server.compat.knows(_NEWER[name]):
            if name == b"CLAIM" and not grouped:
                raise _only_for_groups(name)
            if newer is None:
                newer = {}
            newer[name] = _limit(name, args[at])
            at += 1
        else:
            raise ReplyError(SYNTAX)
    else:
        raise ReplyError(SYNTAX)
    raise ReplyError(b"ERR Missing GROUP option for XREADGROUP")


_OPTION_WORDS: Final = frozenset((b"STREAMS", b"COUNT", b"BLOCK", b"GROUP", b"NOACK"))


# What came later than 8.0, always with one number behind it.
_NEWER: Final = {b"CLAIM": "8.4", b"MAXCOUNT": "8.10", b"MAXSIZE": "8.10"}


def _limit(name: bytes, word: bytes) -> int:
    """The number behind CLAIM, MAXCOUNT or MAXSIZE."""
    if name == b"CLAIM":
        number = parse_integer(word, b"ERR min-idle-time is not an integer or out of range")
        if number < 0:
            raise ReplyError(b"ERR min-idle-time must be a positive integer")
        return number
    error = b"ERR %b must be a positive integer" % name
    number = parse_integer(word, error)
    if number < 1:
        raise ReplyError(error)
    return number


def _allowance(newer: dict[bytes, int], count: int | None) -> Allowance:
    max_count = newer.get(b"MAXCOUNT")
    if max_count is not None and count is not None and max_count < count:
        raise ReplyError(b"ERR MAXCOUNT must be greater than or equal to COUNT")
    return Allowance(newer.get(b"CLAIM"), max_count, newer.get(b"MAXSIZE"))


def _unbalanced(compat: Compat, *, grouped: bool) -> bytes:
    if not compat.names_unbalanced:
        return _UNBALANCED_7_0
    if grouped:
        return _XREADGROUP_UNBALANCED
    return _XREAD_UNBALANCED if compat.reads_last_entry else _XREAD_UNBALANCED.replace(b", '+',", b"")


def _only_for_groups(option: bytes) -> ReplyError:
    return ReplyError(
        b"ERR The %b option is only supported by XREADGROUP. You called XREAD instead." % option
    )


def _timeout(client: Client, word: bytes) -> int:
    timeout = parse_integer(word, _NOT_A_TIMEOUT)
    if timeout < 0:
        raise ReplyError(b"ERR timeout is negative")
    if timeout > INT64_MAX - client.server.keyspace.now:
        if not client.server.compat.limits_timeouts:
            return 0
        raise ReplyError(b"ERR timeout is out of range")
    return timeout


_WITH_NUMBER: Final = frozenset((b"BLOCK", b"COUNT", *_NEWER))


def find_keys(argv: list[bytes]) -> list[int]:
    """The key positions of XREAD and XREADGROUP.

    The options are walked, for a group, a consumer or a key may be called STREAMS. Where that leads nowhere the
    first STREAMS counts, as the key specification says; of an odd number of words after it the smaller half.
    """
    words = len(argv)
    at = 1
    while at < words:
        name = argv[at].upper()
        if name in _WITH_NUMBER:
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
    return (KeySpec(("RO", "access", "incomplete"), ("keyword", "STREAMS", start), ("range", -1, 1, 2)),)


# XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
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
    history=syntax.XREAD_HISTORY,
    arguments=syntax.XREAD,
)
def xread(client: Client, args: list[bytes]) -> bytes | None:
    """Read what is newer than the given IDs; ``$`` is now, ``+`` the last entry itself."""
    keyspace = client.server.keyspace
    options = parse_options(client, args, grouped=False)
    allowance = options.allowance
    first, keys = options.first_key, options.keys
    plan: list[tuple[Stream | None, int]] = []
    for at in range(first, first + keys):
        stream = client.read_value(args[at], Stream)
        word = args[at + keys]
        if word == b"$":
            after = 0 if stream is None else stream.last_id
        elif word == b"+" and client.server.compat.reads_last_entry:
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
            number, entries = take_after(stream, after, options.count, allowance)
            if number:
                parts += (reply_part(client.resp, args[at], number), entries)
                if allowance is not None:
                    allowance.size += len(parts[-2])
                    if allowance.is_spent():
                        break
    if parts:
        return whole_reply(client.resp, parts)
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


# XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds]
#     [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]
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
    history=syntax.XREADGROUP_HISTORY,
    arguments=syntax.XREADGROUP,
)
def xreadgroup(client: Client, args: list[bytes]) -> bytes | None:
    """Deliver new entries (``>``) or answer the consumer's own pending ones after an ID.

    Nothing is delivered from any stream if one key is refused. The consumer is created on each of them even if
    nothing is delivered.
    """
    keyspace = client.server.keyspace
    now = keyspace.now
    options = parse_options(client, args, grouped=True)
    allowance = options.allowance
    first, keys = options.first_key, options.keys
    name = options.group
    assert name is not None
    plan: list[tuple[Stream, Group, int | None]] = []
    for at in range(first, first + keys):
        stream = client.read_value(args[at], Stream)
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            raise no_such_group(args[at], name, b" in XREADGROUP with GROUP option")
        if type(group) is not Group:
            settle_group(client, group)
        word = args[at + keys]
        after: int | None = None
        if word != b">":
            if word == b"$" or (word == b"+" and client.server.compat.names_unbalanced):
                raise ReplyError(MEANINGLESS % (word, word))
            after = parse_id(word)
            if after == MAX_ID:  # which is how Redis writes down `>`
                after = None
        plan.append((stream, group, after))

    parts: list[bytes] = []
    for at, (stream, group, after) in enumerate(plan, first):
        if allowance is not None and allowance.is_spent():
            break
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
            number, entries = history(client, stream, group, consumer, after, options)
        keyspace.dirty += 1
        parts += (reply_part(client.resp, key, number), entries)
        if allowance is not None:
            allowance.size += len(parts[-2])
    if parts:
        return whole_reply(client.resp, parts)
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    look_at = None
    goes_on = None
    if allowance is not None and allowance.claim is not None:
        look_at = {
            args[at]: claimable_after(group, allowance.claim, now)
            for at, (_, group, _) in enumerate(plan, first)
        }
    else:
        goes_on = _nothing_new(client, args[first : first + keys], plan, options)
    client.block(
        args[first : first + keys], options.block, args, on_missing=True, look_at=look_at, goes_on=goes_on
    )
    return None


def _nothing_new(
    client: Client, names: list[bytes], plan: list[tuple[Stream, Group, int | None]], options: ReadOptions
) -> Callable[[], bool]:
    """For a reader that blocks: whether there is still nothing for it, in less time than reading again takes.

    Of many that wait for one stream the first gets an entry and all others find that out.
    """
    db = client.db
    keyspace = db.keyspace
    group_name, consumer_name = options.group, options.consumer
    assert group_name is not None
    waits = [(key, stream, group) for key, (stream, group, _) in zip(names, plan, strict=True)]

    def look() -> bool:
        consumers: list[Consumer] = []
        for key, stream, group in waits:
            consumer = group.consumers.get(consumer_name)
            if (
                consumer is None
                or group.last_id < stream.last_id
                or db.entries.get(key) is not stream
                or stream.groups.get(group_name) is not group
                or db.is_due(key)
            ):
                return False
            consumers.append(consumer)
        for consumer in consumers:
            consumer.seen_ms = keyspace.now
        keyspace.hits += 2 * len(waits)  # a read looks each key up twice
        return True

    return look


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
    """Deliver new entries to the consumer, after those it claims; answers how many, and the entries."""
    before = group.last_id
    claimed, items = 0, b""
    allowance = options.allowance
    if allowance is None:
        pieces, entries, last = stream.take_after(before, options.count)
    else:
        count = options.count
        if allowance.claim is not None:
            assert options.group is not None
            claimed, items = claim_idle(client, key, options.group, stream, group, consumer, allowance, count)
            count = None if count is None else count - claimed
        pieces, entries, last = allowance.take(stream, before, count)
    if not pieces:
        if is_new and not claimed:
            _propagate_new(client, key, consumer, options)
        return claimed, items
    number = length_of(pieces)
    group.advance(stream, pieces, number, last)
    no_ack = options.no_ack
    if not no_ack:
        now = client.server.keyspace.now
        group.deliver(consumer, pieces, number, before, last, now)
        consumer.active_ms = now
    if client.server.propagation.active:
        name = options.group
        assert name is not None
        if no_ack:
            unsaid = is_new and not claimed
            first = unsaid and client.server.compat.new_consumer_before_setid
            if first:
                propagate_consumer(client, key, name, consumer.name)
            propagate_position(client, key, name, group)
            if unsaid and not first:
                propagate_consumer(client, key, name, consumer.name)
        else:
            # With CLAIM the items are longer than the entries.
            texts = (
                texts_in(pieces, entries)
                if allowance is None
                else list(map(stream_id.encode, ids_in(pieces)))
            )
            propagate_read(client, key, name, group, consumer.name, texts, before)
    if claimed:
        return claimed + number, items + entries
    return number, entries


def _propagate_new(client: Client, key: bytes, consumer: Consumer, options: ReadOptions) -> None:
    """A consumer was created and nothing delivered that would say so."""
    if options.no_ack or client.server.compat.empty_read_states_new_consumer:
        assert options.group is not None
        propagate_consumer(client, key, options.group, consumer.name)


def history(
    client: Client, stream: Stream, group: Group, consumer: Consumer, after: int, options: ReadOptions
) -> tuple[int, bytes]:
    """The consumer's own pending entries after an ID; they count as delivered once more, which nobody else is told.

    An entry that is no longer in the stream is answered as its id and a null, and stays as it is.
    """
    allowance = options.allowance
    count = options.count if allowance is None else allowance.within(options.count)
    places = group.pending(after + 1, MAX_ID, count, consumer)
    if not places:
        return 0, b""
    living, ids = places, texts_of(places)
    number = len(ids)
    pieces, entries, _ = stream.take_after(stream_id.parse(ids[0]) - 1, number)
    if allowance is not None or texts_in(pieces, entries) != ids:
        living = []
        items: list[bytes] = []
        null = replies.null_array(client.resp)
        for text, (page, (at,)) in zip(ids, one_by_one(places), strict=True):
            if allowance is not None and allowance.is_spent():
                break
            entry = stream.entry(page.number(at))
            if entry is None:
                entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, null)
            else:
                living.append((page, (at,)))
            items.append(entry)
            if allowance is not None:
                allowance.add(len(entry))
        number, entries = len(items), b"".join(items)
    counts = [min(block.count + 1, MAX_COUNT) for block in blocks_of(living)]
    group.reassign_each(consumer, living, client.server.keyspace.now, counts)
    return number, entries


def reply_part(resp: int, key: bytes, number: int) -> bytes:
    """What stands before one stream's entries: the head of a pair, in RESP3 a key and the head of its value."""
    if resp == 3:
        return b"$%d\r\n%b\r\n*%d\r\n" % (len(key), key, number)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(key), key, number)


def whole_reply(resp: int, parts: list[bytes]) -> bytes:
    """The reply from the heads and the entries of all streams by turns."""
    if len(parts) == 2:
        return (b"%%1\r\n%b%b" if resp == 3 else b"*1\r\n%b%b") % (*parts,)
    streams = len(parts) // 2
    return b"".join((b"%%%d\r\n" % streams if resp == 3 else replies.array_header(streams), *parts))
