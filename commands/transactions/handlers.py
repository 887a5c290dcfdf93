"""Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH. The dispatcher queues the commands in between.

``storage/keyspace/watches`` explains how WATCH detects changes.
"""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.keyspace.database import WatchedKey
from ...storage.keyspace.watches import brought_past_its_time, unwatch_keys, was_modified, watch_key
from ..runtime.client import Client, Transaction, watched_key_changed
from ..spec.command import handles
from . import specs

EXECABORT: Final = b"EXECABORT Transaction discarded because of previous errors."


def unwatch_all(client: Client) -> None:
    """Forget every key that the client watches; also called when it closes."""
    client.watched_touched.clear()  # first, because forgotten keys must not be checked
    unwatch_keys(client.watched)
    client.watched_bytes = 0
    client.watched_changed = False


def must_fail(client: Client) -> bool:
    """Return True if EXEC can only fail: a command was refused when queued, or a watched key has changed."""
    transaction = client.transaction
    return transaction is not None and (transaction.aborted or watched_key_changed(client))


def discard_transaction(client: Client) -> None:
    """Discard an open transaction and forget all watched keys."""
    client.transaction = None
    client.in_exec = False
    unwatch_all(client)
    client.update_state()


def _must_fail(watched: WatchedKey) -> bool:
    return was_modified(watched) or (
        not watched.was_due and not brought_past_its_time(watched) and watched.database.is_due(watched.key)
    )


@handles(specs.MULTI)
def multi(client: Client, _args: list[bytes]) -> bytes:
    """Begin to queue commands; reply OK."""
    if client.transaction is not None:
        raise ReplyError(b"ERR MULTI calls can not be nested")
    client.transaction = Transaction()
    client.update_state()
    return replies.OK


@handles(specs.EXEC)
def exec_(client: Client, _args: list[bytes]) -> bytes:
    """Run the queued commands; reply with the array of their replies, or a null array if a watched key changed."""
    transaction = client.transaction
    if transaction is None:
        raise ReplyError(b"ERR EXEC without MULTI")
    if transaction.aborted:
        discard_transaction(client)
        raise ReplyError(EXECABORT)
    # If a watched key had changed, commands were not queued: EXEC must fail, whatever happened to the watches.
    if watched_key_changed(client) or any(_must_fail(watched) for watched in client.watched):
        discard_transaction(client)
        return replies.null_array(client.resp)
    unwatch_all(client)
    client.server.keyspace.now = client.server.clock.begin_unit()
    client.in_exec = True
    call = client.server.calls.call_queued
    try:
        # The transaction stays open while its commands run: CLIENT LIST shows it, as in Redis.
        if client.server.compat.sends_own_messages_after_reply:
            answers = call(client, transaction.commands)
        else:
            last = len(transaction.commands) - 1
            answers = [
                _behind_pushes(client, *call(client, [one], ends=at == last))
                for at, one in enumerate(transaction.commands)
            ]
    finally:
        discard_transaction(client)
    return replies.array(answers)


def _behind_pushes(client: Client, reply: bytes) -> bytes:
    """Place a reply after the pushes that its command caused; up to 7.0 they are inside the array."""
    pushes = b"".join(client.deferred)
    client.deferred.clear()
    return pushes + reply


@handles(specs.DISCARD)
def discard(client: Client, _args: list[bytes]) -> bytes:
    """Forget the queued commands and the watched keys; reply OK."""
    if client.transaction is None:
        raise ReplyError(b"ERR DISCARD without MULTI")
    discard_transaction(client)
    return replies.OK


@handles(specs.WATCH)
def watch(client: Client, args: list[bytes]) -> bytes:
    """Watch keys, so that EXEC fails if one of them changes before; reply OK."""
    if client.transaction is not None:
        raise ReplyError(b"ERR WATCH inside MULTI is not allowed")
    db = client.db
    known = {watched.key for watched in client.watched if watched.database is db}
    for name in args[1:]:
        if name not in known:
            known.add(name)
            watch_key(client.watched, db, name, client.watched_touched)
            client.watched_bytes += len(name)
    return replies.OK


@handles(specs.UNWATCH)
def unwatch(client: Client, _args: list[bytes]) -> bytes:
    """Forget all watched keys; reply OK."""
    unwatch_all(client)
    return replies.OK
