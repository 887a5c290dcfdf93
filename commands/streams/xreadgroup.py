"""XREADGROUP: deliver new entries (with CLAIM: after idle ones), or re-deliver a consumer's pending entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.groups.claiming import claim_oldest, may_claim
from ...storage.groups.consumer import Consumer
from ...storage.groups.group import Group
from ...storage.groups.history import read_again
from ...storage.groups.pending import UNOWNED_MS
from ...storage.streams.chunk import ids_in, length_of, texts_in
from ...storage.streams.ids import MAX_ID, encode, parse
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .deferral import require_claimable, require_order
from .group_propagation import (
    new_consumer,
    propagate_claims,
    propagate_consumer,
    propagate_position,
    propagate_read,
)
from .lookup import find_group
from .read_options import HEADS_OF_ONE, REPLY_HEADS, STREAM_HEADS, ReadBudget, ReadOptions, parse_options

# For each key: its stream, its group, and the ID after which to read the history (None: new entries).
_Plan: TypeAlias = list[tuple[Stream, Group, int | None]]

NO_GROUP_TO_READ: Final = b" in XREADGROUP with GROUP option"
MEANINGLESS: Final = (
    b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %b ID would just return an empty result set."
)
# Milliseconds between checks for a due entry that cannot be claimed because its message is gone, as in an idle Redis.
_PATIENCE: Final = 100


@handles(specs.XREADGROUP)
def xreadgroup(client: Client, args: list[bytes]) -> bytes | None:
    """Deliver new entries (``>``), or re-deliver the consumer's own pending entries after an ID.

    If one key is refused, nothing is delivered from any stream. The consumer is created in the group of each stream
    that is read, even if nothing is delivered.
    """
    keyspace = client.server.keyspace
    now = keyspace.now
    db = client.db
    options = parse_options(client, args, grouped=True)
    plan = _plan(client, args, options)
    budget = options.budget
    first, keys = options.first_key, options.keys

    is_alone = keys == 1
    head = (HEADS_OF_ONE if is_alone else STREAM_HEADS)[client.resp]
    parts: list[bytes | bytearray] = [b""]
    streams = 0
    for at, (stream, group, after) in enumerate(plan, first):
        if budget is not None and budget.is_spent():
            break
        key = args[at]
        db.read_again(key, stream)
        if db.meter is not None:
            db.changed(key, 0)
        consumer = group.consumers.get(options.consumer)
        is_new = consumer is None
        if consumer is None:
            consumer = new_consumer(client, key, group, options.consumer)
        consumer.see(now)
        if budget is not None:
            budget.begin(key, client.resp)
        if after is None:
            number, entries = _deliver(client, key, stream, group, consumer, options, is_new=is_new)
            if number:
                keyspace.dirty += 1
            elif budget is None:
                continue
            elif not budget.is_spent() or not _has_any(stream, group, budget, now):
                budget.take_back()
                continue
        else:
            if is_new:
                _propagate_new(client, key, consumer, options)
            if budget is not None:
                budget.claim = None  # a history also ends CLAIM for the following streams
            items = history(client, stream, group, consumer, after, options)
            number, entries = len(items), [b"".join(items)]
        streams += 1
        parts.append(head % (len(key), key, number))
        parts += entries
        if budget is not None:
            budget.end(number)
    if streams:
        if not is_alone:
            parts[0] = REPLY_HEADS[client.resp] % streams
        return b"".join(parts)
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    recheck_at = None
    still_blocked = None
    names = args[first : first + keys]
    if budget is not None and budget.claim is not None:
        recheck_at = {
            args[at]: _claimable_after(group, budget.claim, now)
            for at, (_, group, _) in enumerate(plan, first)
        }
    else:
        still_blocked = _still_empty(client, names, plan, options)
    client.server.blocking.block(
        client,
        names,
        options.block,
        args,
        on_missing=True,
        recheck_at=recheck_at,
        still_blocked=still_blocked,
    )
    return None


def _plan(client: Client, args: list[bytes], options: ReadOptions) -> _Plan:
    """Look up the stream and the group of each key, and the start of the history (None: new entries)."""
    first, keys = options.first_key, options.keys
    assert options.group is not None
    plan: _Plan = []
    for at in range(first, first + keys):
        stream, group = find_group(client, args[at], options.group, NO_GROUP_TO_READ)
        word = args[at + keys]
        after: int | None = None
        if word != b">":
            if word == b"$" or (word == b"+" and client.server.compat.names_command_in_unbalanced_error):
                raise ReplyError(MEANINGLESS % (word, word))
            after = parse(word)
            if after == MAX_ID:  # the ID as which Redis stores `>`
                after = None
        if after is not None or options.budget is not None:
            require_orders(client, stream, group, options, after)
        plan.append((stream, group, after))
    return plan


def require_orders(
    client: Client, stream: Stream, group: Group, options: ReadOptions, after: int | None
) -> None:
    """Defer the command until the order of pending entries that it needs is ready.

    Args:
        options: the options of the command, perhaps with CLAIM.
        after: the ID after which it reads the consumer's own pending entries; None for ``>``.
    """
    if after is not None:
        consumer = group.consumers.get(options.consumer)
        if consumer is not None and consumer.pending:
            require_order(client, group, consumer)
    elif options.budget is not None and options.budget.claim is not None:
        latest = client.server.keyspace.now - options.budget.claim
        require_claimable(client, group, stream, latest)


def _still_empty(client: Client, names: list[bytes], plan: _Plan, options: ReadOptions) -> Callable[[], bool]:
    """Return a function that checks if a blocked reader still has nothing to read; it is faster than a read.

    When many readers wait for one stream, one gets the entry; the others need only this check. With 40 readers, an
    entry costs 66 us with the check and 241 us without it.
    """
    db = client.db
    keyspace = db.keyspace
    group_name, consumer_name = options.group, options.consumer
    assert group_name is not None
    waits = [(key, stream, group) for key, (stream, group, _) in zip(names, plan, strict=True)]

    def still_empty() -> bool:
        for key, stream, group in waits:
            if (
                not group.has_nothing_for(consumer_name, stream)
                or db.entries.get(key) is not stream
                or stream.groups.get(group_name) is not group
                or (db.expires and db.is_due(key))
            ):
                return False
        for key, _, group in waits:
            group.consumers[consumer_name].see(keyspace.now)
            db.look(key, times=2)  # as the read would
        return True

    return still_empty


def _deliver(
    client: Client,
    key: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    options: ReadOptions,
    *,
    is_new: bool,
) -> tuple[int, list[bytes | bytearray]]:
    """Deliver new entries, after those that CLAIM takes; return their number, and the entries in pieces."""
    before = group.last_id
    claimed, items = 0, b""
    budget = options.budget
    is_named = is_new and options.no_ack and client.server.compat.propagates_consumer_before_setid
    if is_named:
        assert options.group is not None
        propagate_consumer(client, key, options.group, consumer.name)
    if budget is None:
        pieces, entries, last = stream.entries_after(before, options.count)
    else:
        count = options.count
        if budget.claim is not None:
            assert options.group is not None
            claimed, items = _claim_idle(client, key, options.group, stream, group, consumer, budget, count)
            count = None if count is None else count - claimed
        pieces, entries, last = budget.take(stream, before, count)
    if not pieces:
        if is_new and not is_named and (options.no_ack or not claimed):
            _propagate_new(client, key, consumer, options)
        return claimed, [items]
    number = pieces[0][2] - pieces[0][1] if len(pieces) == 1 else length_of(pieces)
    group.advance(stream, pieces, number, last)
    no_ack = options.no_ack
    if not no_ack:
        now = client.server.keyspace.now
        # With CLAIM the items are longer than the entries.
        texts = texts_in(pieces, entries) if budget is None else list(map(encode, ids_in(pieces)))
        group.pel.deliver(consumer, pieces, texts, before, last, now)
        consumer.receive(now)
    if client.server.propagation.active:
        name = options.group
        assert name is not None
        if no_ack:
            propagate_position(client, key, name, group)
            if is_new and not is_named:
                propagate_consumer(client, key, name, consumer.name)
        else:
            propagate_read(client, key, name, group, consumer.name, texts, before)
    if claimed:
        return claimed + number, [items, *entries]
    return number, entries


def _claim_idle(
    client: Client,
    key: bytes,
    group_name: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    budget: ReadBudget,
    count: int | None,
) -> tuple[int, bytes]:
    """Claim the entries that are idle for long enough (see ``storage.groups.claiming``).

    Return the number of claimed entries, and their joined items.
    """
    now = client.server.keyspace.now
    assert budget.claim is not None
    most = budget.within(count)
    items, changes = claim_oldest(group, stream, consumer, budget.claim, most, now, budget)
    if items:
        if client.server.propagation.active:
            propagate_claims(client, key, group_name, group, changes)
        consumer.receive(now)
    return len(items), b"".join(items)


def _has_any(stream: Stream, group: Group, budget: ReadBudget, now: int) -> bool:
    """Return True if there is a new entry, or one that CLAIM may take, regardless of the spent budget."""
    if stream.length and stream.last_entry_id > group.last_id:
        return True
    return budget.claim is not None and may_claim(group, stream, now - budget.claim)


def _claimable_after(group: Group, claim: int, now: int) -> int:
    """Return the millisecond after which an entry of the group may be claimed or should be checked."""
    oldest = next(group.pel.oldest(), None)
    if oldest is None:
        return now + max(claim, _PATIENCE)
    due = now if oldest.ms == UNOWNED_MS else oldest.ms + claim
    return due if due > now else now + _PATIENCE


def _propagate_new(client: Client, key: bytes, consumer: Consumer, options: ReadOptions) -> None:
    """Propagate a new consumer that got no entry, because no other record names it."""
    if options.no_ack or client.server.compat.empty_read_propagates_new_consumer:
        assert options.group is not None
        propagate_consumer(client, key, options.group, consumer.name)


def history(
    client: Client, stream: Stream, group: Group, consumer: Consumer, after: int, options: ReadOptions
) -> list[bytes | bytearray]:
    """Re-deliver the consumer's own pending entries after an ID, exclusive; propagate nothing.

    Return the encoded entries.
    """
    budget = options.budget
    count = options.count if budget is None else budget.within(options.count)
    null = replies.null_array(client.resp)
    return read_again(group, stream, consumer, after, count, client.server.keyspace.now, null, budget)
