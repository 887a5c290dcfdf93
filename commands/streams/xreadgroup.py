"""XREADGROUP: new entries are delivered, a consumer reads its pending ones again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.groups.redelivery import read_again
from ...storage.streams import ids as stream_id
from ...storage.streams.chunk import ids_in, length_of, texts_in
from ...storage.streams.ids import MAX_ID
from ...storage.streams.stream import Stream
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .group_propagation import (
    new_consumer,
    no_such_group,
    propagate_consumer,
    propagate_position,
    propagate_read,
)
from .ids import parse_id
from .read_options import ReadOptions, parse_options, reply_part, whole_reply
from .xreadgroup_claim import claim_idle, claimable_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...storage.groups.deliveries import Consumer
    from ...storage.groups.group import Group
    from ..runtime.client import Client

MEANINGLESS: Final = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)


@handles(specs.XREADGROUP)
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
        if group.pending_cleanup is not None:
            require_group(client, group)
        word = args[at + keys]
        after: int | None = None
        if word != b">":
            if word == b"$" or (word == b"+" and client.server.compat.names_command_in_unbalanced_error):
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
            first = unsaid and client.server.compat.propagates_consumer_before_setid
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
    if options.no_ack or client.server.compat.empty_read_propagates_new_consumer:
        assert options.group is not None
        propagate_consumer(client, key, options.group, consumer.name)


def history(
    client: Client, stream: Stream, group: Group, consumer: Consumer, after: int, options: ReadOptions
) -> tuple[int, bytes]:
    """Deliver the consumer's own pending entries after an ID once more; nothing of it is propagated."""
    budget = options.allowance
    count = options.count if budget is None else budget.within(options.count)
    null = replies.null_array(client.resp)
    return read_again(group, stream, consumer, after, count, client.server.keyspace.now, null, budget)
