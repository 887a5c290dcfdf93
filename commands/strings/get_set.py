"""Strings as whole values: GET and SET with their options, and the commands for several keys."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import NO_MEMORY, SYNTAX, WRONG_TYPE, ReplyError, wrong_arity
from ...storage.keyspace import notifications as events
from ..keys.expiry import (
    TIME_UNITS,
    checked_time,
    checked_time_in,
    delete_expired,
    discard_expired,
    make_persistent,
    set_expiry,
)
from ..keys.lifecycle import delete
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade
from ..spec.command import handles
from ..spec.versions import Compat
from . import specs
from .conditions import CONDITIONS, holds
from .shared import overwrite, read_string

_CONDITIONS_SINCE: Final = (8, 4)


class _Options:
    """The parsed options of SET and GETEX.

    ``amount`` is the word after the unit, ``operand`` the one after ``condition`` (IFEQ and so on), ``effective``
    all words but GET.
    """

    def __init__(self) -> None:
        self.nx = self.xx = self.get = self.keep_ttl = self.persist = False
        self.unit: bytes | None = None
        self.amount = b""
        self.condition: bytes | None = None
        self.operand = b""
        self.effective: list[bytes] = []

    def expiry(self, client: Client, command_name: str) -> int | None:
        """Return the absolute expiry in milliseconds, None without one."""
        if self.unit is None:
            return None
        return checked_time_in(self.unit, self.amount, command_name, client.db.keyspace.now)


def _parse_options(words: list[bytes], compat: Compat, *, setting: bool) -> _Options:
    """Parse the options of SET (``setting``) or GETEX; a repeated unit replaces the previous one."""
    options = _Options()
    comparing = setting and compat.knows("8.4")
    mixing = compat.mixes_set_conditions
    position = 0
    while position < len(words):
        first = position
        word = words[position].upper()
        position += 1
        if word == b"NX" and setting and not options.xx and (options.condition is None or mixing):
            options.nx = True
        elif word == b"XX" and setting and not options.nx and (options.condition is None or mixing):
            options.xx = True
        elif word == b"GET" and setting:
            options.get = True
            continue
        elif word == b"KEEPTTL" and setting and options.unit is None:
            options.keep_ttl = True
        elif word == b"PERSIST" and not setting and options.unit is None:
            options.persist = True
        elif (
            word in TIME_UNITS
            and options.unit in {None, word}
            and not options.keep_ttl
            and not options.persist
            and position < len(words)
        ):
            options.unit = word
            options.amount = words[position]
            position += 1
        elif (
            comparing
            and word in CONDITIONS
            and options.condition in {None, word}
            and not (options.nx or options.xx)
            and position < len(words)
        ):
            options.condition = word
            options.operand = words[position]
            position += 1
        else:
            raise ReplyError(SYNTAX)
        options.effective += words[first:position]
    return options


@handles(specs.GET)
def get(client: Client, args: list[bytes]) -> bytes:
    """Reply with the string at a key, or null."""
    value = client.db.read(args[1])
    if value is None:
        return replies.null(client.resp)
    if type(value) is bytes:
        return b"$%d\r\n%b\r\n" % (len(value), value)
    raise ReplyError(WRONG_TYPE)


@handles(specs.SET)
def set_(client: Client, args: list[bytes]) -> bytes:
    """Set a string and reply OK, or null if a condition failed; with GET reply with the old value or null instead."""
    if len(args) > 3:
        return _set_with_options(client, args)
    # The most frequent write: overwrite() is inlined, and the AOF and the replicas share one encoding.
    name, value = args[1], args[2]
    db = client.db
    keyspace = db.keyspace
    propagation = client.server.propagation
    effect = None
    if propagation.active:
        try:
            record = b"*3\r\n$3\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
                args[0],
                len(name),
                name,
                len(value),
                value,
            )
            effect = db.index, record
        except MemoryError as error:
            raise ReplyError(NO_MEMORY) from error  # nothing was changed yet
    if keyspace.notify_mask or db.meter is not None:
        overwrite(client, name, value)
    else:
        db.put(name, value)
        db.modified(name)
        keyspace.dirty += 1
    if effect is not None:
        propagation.effects.append(effect)
    return replies.OK


def _set_with_options(client: Client, args: list[bytes]) -> bytes:
    name, value = args[1], args[2]
    db = client.db
    options = _parse_options(args[3:], client.server.compat, setting=True)
    expiry = options.expiry(client, "set")
    refusal = replies.null(client.resp)
    answer = replies.OK
    if options.get:
        old = read_string(client, name)
        answer = refusal if old is None else replies.bulk(old)
        refusal = answer
    if (options.nx or options.xx) and (db.write(name) is not None) == options.nx:
        return refusal
    if options.condition is not None:
        present = db.write(name)
        db.write(name)  # Redis looks it up twice, which LFU counts
        db.keyspace.hits += present is not None
        if not holds(options.condition, options.operand, present):
            return refusal
    if expiry is not None and discard_expired(client, name, expiry, overwrites=True):
        return answer
    is_looked_up = options.xx or options.condition is not None
    overwrite(client, name, value, keep_ttl=options.keep_ttl, is_looked_up=is_looked_up)
    if expiry is not None:
        db.give_expiry(name, expiry)
        db.keyspace.notify(events.GENERIC, b"expire", name, db)
    _propagate_set(client, args, options, expiry)
    return answer


def _propagate_set(client: Client, args: list[bytes], options: _Options, expiry: int | None) -> None:
    """Propagate SET with an absolute expiry; a condition may stay, because it has been met."""
    times = [b"KEEPTTL"] if options.keep_ttl else []
    if expiry is not None:
        times = [b"PXAT", b"%d" % expiry]
    if expiry is None:
        effect = [*args[:3], *options.effective]
    elif options.unit == b"PXAT" and client.server.compat.propagates_pxat_as_given:
        effect = args
    else:
        verb = args[0] if client.server.compat.propagates_pxat_as_given else b"SET"
        effect = [verb, args[1], args[2], *times]
    older = None
    if options.condition is not None and needs_downgrade(client, _CONDITIONS_SINCE):
        older = [[b"SET", args[1], args[2], *times]]
    client.propagate_with_downgrade(effect, older)


@handles(specs.GETDEL)
def getdel(client: Client, args: list[bytes]) -> bytes:
    """Delete a string; reply with its value, or null."""
    value = read_string(client, args[1])
    if value is None and args[1] not in client.db.entries:  # else a replica only hides an expired key
        return replies.null(client.resp)
    delete(client, args[1])
    is_lazy = client.server.config.lazyfree_lazy_user_del and client.server.compat.getdel_unlinks
    client.propagate([b"UNLINK" if is_lazy else b"DEL", args[1]])
    return replies.null(client.resp) if value is None else replies.bulk(value)


@handles(specs.GETEX)
def getex(client: Client, args: list[bytes]) -> bytes:
    """Reply with a string, or null, and set or remove its expiry; for a missing key the amount is not parsed."""
    name = args[1]
    options = _parse_options(args[2:], client.server.compat, setting=False)
    value = read_string(client, name)
    if value is None:
        return replies.null(client.resp)
    expiry = options.expiry(client, "getex")
    if expiry is not None:
        if not delete_expired(client, name, expiry):
            set_expiry(client, name, expiry)
            client.propagate([b"PEXPIREAT", name, b"%d" % expiry])
    elif options.persist and make_persistent(client, name):
        client.propagate([b"PERSIST", name])
    return replies.bulk(value)


@handles(specs.GETSET)
def getset(client: Client, args: list[bytes]) -> bytes:
    """Set a string; reply with the old value, or null."""
    old = read_string(client, args[1])
    overwrite(client, args[1], args[2])
    client.propagate([b"SET", args[1], args[2]])
    return replies.null(client.resp) if old is None else replies.bulk(old)


@handles(specs.SETNX)
def setnx(client: Client, args: list[bytes]) -> bytes:
    """Set a string if the key is missing; reply 1 if it was set, else 0."""
    if client.db.write(args[1]) is not None:
        return replies.ZERO
    overwrite(client, args[1], args[2])
    client.propagate(args)
    return replies.ONE


@handles(specs.SETEX, command_name="setex", seconds=True)
@handles(specs.PSETEX, command_name="psetex", seconds=False)
def setex(client: Client, args: list[bytes], *, command_name: str, seconds: bool) -> bytes:
    """Set a string with an expiry in seconds or milliseconds; reply OK."""
    name, value = args[1], args[3]
    db = client.db
    expiry = checked_time(args[2], command_name, db.keyspace.now, seconds=seconds)
    overwrite(client, name, value)
    db.give_expiry(name, expiry)
    db.keyspace.notify(events.GENERIC, b"expire", name, db)
    client.propagate([b"SET", name, value, b"PXAT", b"%d" % expiry])
    return replies.OK


@handles(specs.MGET)
def mget(client: Client, args: list[bytes]) -> bytes:
    """Reply with the strings at several keys in order; null for a missing key and for one of another type."""
    null = replies.null(client.resp)
    values = map(client.db.read, args[1:])
    return replies.array([replies.bulk(value) if type(value) is bytes else null for value in values])


@handles(specs.MSET)
def mset(client: Client, args: list[bytes]) -> bytes:
    """Set several strings and reply OK; for a repeated key the last value is stored."""
    if len(args) % 2 == 0:
        raise wrong_arity("mset")
    for position in range(1, len(args), 2):
        overwrite(client, args[position], args[position + 1])
    client.propagate(args)
    return replies.OK


@handles(specs.MSETNX)
def msetnx(client: Client, args: list[bytes]) -> bytes:
    """Set several strings if no key exists; reply 1 if all were set, 0 if none was."""
    if len(args) % 2 == 0:
        raise wrong_arity("msetnx")
    for name in args[1::2]:
        if client.db.write(name) is not None:
            return replies.ZERO
    for position in range(1, len(args), 2):
        overwrite(client, args[position], args[position + 1])
    client.propagate(args)
    return replies.ONE
