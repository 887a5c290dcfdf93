"""Set several strings at once, with one expiry and one condition: MSETEX."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ..keys.expiry import TIME_UNITS, checked_time_in
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade
from ..spec.command import handles
from . import specs

_INT_MAX: Final = (1 << 31) - 1
_SINCE: Final = (8, 4)


class _Options:
    """The options after the pairs: NX or XX, and a unit with its amount or KEEPTTL."""

    __slots__ = ("amount", "condition", "keep_ttl", "unit", "unit_at", "words")

    def __init__(self, options: Arguments) -> None:
        self.condition = self.unit = self.amount = b""
        self.keep_ttl = False
        self.unit_at = 0
        # The options as given, but only the last of repeated units; ``unit_at`` is the index of the unit.
        self.words: list[bytes] = []
        while options:
            word = options.next()
            option = word.upper()
            if option in {b"NX", b"XX"} and self.condition in {b"", option}:
                self.condition = option
            elif option == b"KEEPTTL" and not self.unit:
                self.keep_ttl = True
            elif option in TIME_UNITS and self.unit in {b"", option} and not self.keep_ttl:
                if self.unit:
                    del self.words[self.unit_at : self.unit_at + 2]
                self.unit, self.unit_at = option, len(self.words)
                self.amount = options.next()
                self.words += (word, self.amount)
                continue
            else:
                raise ReplyError(SYNTAX)
            self.words.append(word)

    def expiry(self, now: int) -> int | None:
        """Return the absolute time in milliseconds, None without a unit."""
        if not self.unit:
            return None
        return checked_time_in(self.unit, self.amount, "msetex", now)


@handles(specs.MSETEX)
def msetex(client: Client, args: list[bytes]) -> bytes:
    """Set several strings with one expiry; reply 1 if all were set, 0 if the condition fails for a key and none was."""
    error = b"ERR invalid numkeys value"
    count = parse_integer(args[1], error)
    if not 1 <= count <= _INT_MAX:
        raise ReplyError(error)
    end = 2 + 2 * count
    if end > len(args):
        raise ReplyError(b"ERR wrong number of key-value pairs")
    options = _Options(Arguments(args, end))
    db = client.db
    keyspace = db.keyspace
    expiry = options.expiry(keyspace.now)
    names = args[2:end:2]
    if options.condition:
        wanted = options.condition == b"XX"
        if not all((db.write(name) is not None) == wanted for name in names):
            return replies.ZERO
    for at in range(2, end, 2):
        _set(client, args[at], args[at + 1], expiry, keep_ttl=options.keep_ttl)
    _propagate(client, args, end, options, expiry)
    return replies.ONE


def _set(client: Client, name: bytes, value: bytes, expiry: int | None, *, keep_ttl: bool) -> None:
    """Set one key; unlike with SET, the event ``set`` follows ``expire``."""
    db = client.db
    keyspace = db.keyspace
    before = db.write(name)
    db.put(name, value, keep_ttl=keep_ttl)
    db.modified(name)
    db.notify_overwritten(name, before)
    keyspace.dirty += 1
    if expiry is not None:
        db.give_expiry(name, expiry)
        keyspace.notify(events.GENERIC, b"expire", name, db)
    keyspace.notify(events.STRING, b"set", name, db)


def _propagate(client: Client, args: list[bytes], end: int, options: _Options, expiry: int | None) -> None:
    """Propagate MSETEX with an absolute time; older replicas receive a SET for each key."""
    words = list(options.words)
    if expiry is not None and options.unit in {b"EX", b"PX"}:
        words[options.unit_at : options.unit_at + 2] = (b"PXAT", b"%d" % expiry)
    older = None
    if needs_downgrade(client, _SINCE):
        times = [b"KEEPTTL"] if options.keep_ttl else []
        if expiry is not None:
            times = [b"PXAT", b"%d" % expiry]
        older = [[b"SET", args[at], args[at + 1], *times] for at in range(2, end, 2)]
    client.propagate_with_downgrade([*args[:end], *words], older)
