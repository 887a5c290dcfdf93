"""Get or set fields of a hash together with their times to live: HGETEX, HSETEX, HGETDEL."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_arity
from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import drop, let_expire
from ..keys.expiry import TIME_UNITS
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.versions import Compat
from . import specs
from .field_expiry import is_past, parse_fields, parse_time, propagate_times
from .shared import FieldLookups, changed, make_hash, propagate_with_times, remove_if_empty

# Options of HGETEX before 8.6, of which only one is allowed.
_BEFORE_FIELDS: Final = frozenset((*TIME_UNITS, b"PERSIST"))
# Options that only one of HGETEX and HSETEX has.
_OF_THE_OTHER: Final = frozenset((b"PERSIST", b"KEEPTTL", b"FNX", b"FXX"))
_INT_MAX: Final = (1 << 31) - 1


class _Options:
    """The options of HGETEX or HSETEX, in any order.

    ``setting``: True for HSETEX: each field has a value, and conditions are allowed.
    """

    __slots__ = ("condition", "fields", "fields_word", "time_at", "time_word", "when")

    def __init__(self, client: Client, words: list[bytes], *, setting: bool) -> None:
        now, compat = client.db.keyspace.now, client.server.compat
        command_name = "hsetex" if setting else "hgetex"
        alone = b"KEEPTTL" if setting else b"PERSIST"
        # ``condition``: FNX, FXX or nothing.
        # ``time_word``: the unit, PERSIST, KEEPTTL or nothing.
        self.condition = self.time_word = b""
        # ``time_at``: the position of the unit among the words of the command.
        # ``when``: the time in milliseconds, if there is a unit.
        self.time_at = self.when = 0
        self.fields_word = b"FIELDS"  # FIELDS, as it is propagated
        self.fields: list[bytes] = []  # the words after numfields
        options = Arguments(words, 2)
        while options:
            word = options.next()
            option = word.upper()
            if (
                not setting
                and not compat.takes_fields_anywhere
                and (self.time_word or option not in _BEFORE_FIELDS)
            ):
                if not options:
                    raise wrong_arity(command_name)
                self.fields_word = word
                self.fields = parse_fields(words, options.position - 1)
                return
            if option == b"FIELDS":
                if self.fields:
                    raise ReplyError(b"ERR FIELDS keyword specified multiple times")
                self.fields = _counted(options, compat, command_name, 2 if setting else 1)
            elif option in TIME_UNITS or option == alone:
                if self.time_word:
                    raise ReplyError(
                        b"ERR Only one of EX, PX, EXAT, PXAT or %b arguments can be specified" % alone
                    )
                self.time_word, self.time_at = option, options.position - 1
                if option != alone:
                    amount = options.next(b"ERR missing expire time")
                    base = now if option in {b"EX", b"PX"} else 0
                    self.when = parse_time(amount, command_name, base, seconds=option.startswith(b"EX"))
            elif setting and option in {b"FNX", b"FXX"}:
                if self.condition:
                    raise ReplyError(b"ERR Only one of FXX or FNX arguments can be specified")
                self.condition = option
            elif option in _OF_THE_OTHER and compat.takes_fields_anywhere and not compat.knows("8.8"):
                raise ReplyError(b"ERR unknown argument")
            else:
                raise ReplyError(b"ERR unknown argument: %b" % shown(word))
        if not self.fields:
            raise ReplyError(b"ERR missing FIELDS argument")

    @property
    def sets_times(self) -> bool:
        return self.time_word in TIME_UNITS


def _counted(options: Arguments, compat: Compat, command_name: str, words_each: int) -> list[bytes]:
    """Return the words that ``numfields`` counts."""
    error = b"ERR invalid number of fields"
    if not options:
        raise wrong_arity(command_name)
    count = parse_integer(options.next(), error)
    if not 1 <= count <= _INT_MAX:
        raise ReplyError(error)
    if not compat.takes_fields_anywhere and count * words_each != options.remaining:
        raise wrong_arity(command_name)
    if count * words_each > options.remaining:
        raise ReplyError(b"ERR wrong number of arguments")
    return [options.next() for _ in range(count * words_each)]


@handles(specs.HGETEX)
def hgetex(client: Client, args: list[bytes]) -> bytes:
    """Set or remove the expiry of fields; reply with their values in order, null for a missing one.

    It is propagated as HPEXPIREAT, HPERSIST or HDEL.
    """
    name, db = args[1], client.db
    value = client.write_value(name, Hash)
    options = _Options(client, args, setting=False)
    null = replies.null(client.resp)
    if value is None:
        return replies.array([null] * len(options.fields))
    if options.time_word:
        value.prepare_times()
    lookups = FieldLookups(client, name, value)
    answers: list[bytes] = []
    updated: list[bytes] = []
    deleted: list[bytes] = []
    for field in options.fields:
        content = lookups.find(field)
        answers.append(null if content is None else replies.bulk(content))
        if content is None or not options.time_word:
            continue
        if options.time_word == b"PERSIST":
            if value.persist(field):
                updated.append(field)
        elif is_past(client, options.when):
            drop(db, name, value, field)
            deleted.append(field)
        else:
            let_expire(db, name, value, field, options.when)
            updated.append(field)
    if updated and lookups.dropped:
        lookups.finish()  # the events of expired fields come before those of the others
    if updated and options.time_word == b"PERSIST":
        changed(client, name, b"hpersist", updated)
        propagate_times(client, [b"HPERSIST", name, options.fields_word], options.fields, [])
    elif updated:
        changed(client, name, b"hexpire", updated)
        when = b"%d" % options.when
        propagate_times(client, [b"HPEXPIREAT", name, when, options.fields_word], options.fields, [])
    elif deleted:
        changed(client, name, b"hdel", deleted)
    if lookups.dropped and not updated:
        lookups.finish()
    elif deleted:
        remove_if_empty(client, name, value)
    return replies.array(answers)


@handles(specs.HSETEX)
def hsetex(client: Client, args: list[bytes]) -> bytes:
    """Set fields with an expiry; reply 1 if all were set, 0 if the condition fails and none was set."""
    name, db = args[1], client.db
    options = _Options(client, args, setting=True)
    value = client.write_value(name, Hash)
    if value is None and options.condition == b"FXX":
        return replies.ZERO
    words, limits = options.fields, db.keyspace.limits
    fields = words[::2]
    if value is not None and options.condition:
        lookups = FieldLookups(client, name, value)
        wanted = options.condition == b"FXX"
        met = all((lookups.find(field) is not None) == wanted for field in fields)
        if not met:
            lookups.finish()
            return replies.ZERO
        lookups.finish_before_set()
    if value is None:
        value = make_hash(client, name)
    if options.sets_times:
        value.prepare_times()
    value.expect(len(fields), limits)
    keep = options.time_word == b"KEEPTTL"
    deleted: list[bytes] = []
    for field, content in zip(fields, words[1::2], strict=True):
        value.set(field, content, limits, keep_time=keep)
        if options.sets_times and is_past(client, options.when):
            drop(db, name, value, field)
            deleted.append(field)
        elif options.sets_times:
            let_expire(db, name, value, field, options.when)
    changed(client, name, b"hset", fields)
    if options.sets_times:
        db.keyspace.notify(events.HASH, b"hdel" if deleted else b"hexpire", name, db, deleted or fields)
    remove_if_empty(client, name, value)
    if not deleted:
        _propagate_set(client, args, options, value)
    return replies.ONE


def _propagate_set(client: Client, args: list[bytes], options: _Options, value: Hash) -> None:
    """Propagate HSETEX with an absolute time."""
    effect = args
    if options.sets_times and options.time_word != b"PXAT":
        effect = args.copy()
        effect[options.time_at : options.time_at + 2] = (b"PXAT", b"%d" % options.when)
    propagate_with_times(client, effect, value, options.fields)


@handles(specs.HGETDEL)
def hgetdel(client: Client, args: list[bytes]) -> bytes:
    """Delete fields; reply with their values in order, null for a missing one. It is propagated as HDEL."""
    name = args[1]
    value = client.write_value(name, Hash)
    fields = parse_fields(args)
    null = replies.null(client.resp)
    if value is None:
        return replies.array([null] * len(fields))
    lookups = FieldLookups(client, name, value)
    answers: list[bytes] = []
    deleted: list[bytes] = []
    for field in fields:
        content = lookups.find(field)
        answers.append(null if content is None else replies.bulk(content))
        if content is not None and value.discard(field):
            deleted.append(field)
    # A replica hides an expired field and keeps it, but sends its event.
    hidden = [field for field in fields if field not in lookups.dropped and field in value.fields]
    if hidden or (lookups.dropped and deleted):
        client.db.keyspace.notify(events.HASH, b"hexpired", name, client.db, lookups.dropped + hidden)
    if deleted:
        changed(client, name, b"hdel", deleted)
        client.propagate([b"HDEL", name, *fields])
    if lookups.dropped and not deleted:
        lookups.finish()
    elif deleted:
        remove_if_empty(client, name, value)
    return replies.array(answers)
