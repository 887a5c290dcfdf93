"""A counter with bounds and an expiry: INCREX."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ..keys.expiry import TIME_UNITS, checked_time_in, discard_expired
from ..runtime import long_double
from ..runtime.arguments import INT64_MAX, INT64_MIN, Arguments, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import store, store_sum, write_string

_INCREMENTS: Final = frozenset((b"BYINT", b"BYFLOAT"))
_WITH_VALUE: Final = frozenset((*_INCREMENTS, b"LBOUND", b"UBOUND", *TIME_UNITS))
_ALONE: Final = frozenset((b"SATURATE", b"PERSIST", b"ENX"))
# Groups of options of which a command may have one.
_EXCLUSIVE: Final = (_INCREMENTS, frozenset((b"PERSIST", *TIME_UNITS)), frozenset((b"PERSIST", b"ENX")))
_GREATEST: Final = Fraction((1 << 16384) - (1 << 16320))  # the greatest 80-bit number
_INFINITY: Final = 2 * _GREATEST  # beyond every number of that type


class _Options:
    """The parsed options, each given at most once."""

    __slots__ = ("amount", "expiry", "high", "low", "whole", "words")

    def __init__(self, options: Arguments, now: int) -> None:
        # The given options, each with the word after it (empty for a switch).
        self.words: dict[bytes, bytes] = {}
        # Whether the numbers are integers; they are 80-bit floating point numbers with BYFLOAT.
        self.whole = True
        self.amount = Fraction(1)
        while options:
            self._take(options.option(), options)
        limit = Fraction(INT64_MAX) if self.whole else _GREATEST
        self.low = self._bound(b"LBOUND", Fraction(INT64_MIN) if self.whole else -_GREATEST)
        self.high = self._bound(b"UBOUND", limit)
        if self.low > self.high:
            raise ReplyError(b"ERR LBOUND can't be greater than UBOUND")
        unit = next(iter(self.words.keys() & TIME_UNITS), None)
        if unit is None and b"ENX" in self.words:
            raise ReplyError(b"ERR ENX flag requires an expiration")
        # The absolute time in milliseconds, None without a unit.
        self.expiry = None if unit is None else checked_time_in(unit, self.words[unit], "increx", now)

    def _take(self, option: bytes, options: Arguments) -> None:
        """Take one option; the increment is parsed at once, bounds and time after all options."""
        words = self.words
        if option in words or option not in _WITH_VALUE | _ALONE:
            raise ReplyError(SYNTAX)
        if any(option in group and group & words.keys() for group in _EXCLUSIVE):
            raise ReplyError(SYNTAX)
        words[option] = options.next() if option in _WITH_VALUE else b""
        if option in _INCREMENTS:
            self.whole = option == b"BYINT"
            self.amount = _parse(words[option], b"Increment", whole=self.whole)
            if abs(self.amount) == _INFINITY:
                raise ReplyError(b"ERR BYFLOAT increment cannot be Infinity")

    def _bound(self, name: bytes, default: Fraction) -> Fraction:
        return _parse(self.words[name], name, whole=self.whole) if name in self.words else default


def _parse(word: bytes, what: bytes, *, whole: bool) -> Fraction:
    if whole:
        return Fraction(parse_integer(word, b"ERR %b is not an integer or out of range" % what))
    try:
        return long_double.parse(word)
    except ValueError as error:
        raise ReplyError(b"ERR %b is not a valid float" % what) from error
    except long_double.NotFiniteError:
        return -_INFINITY if word.startswith(b"-") else _INFINITY


def _present(value: bytes | None, *, whole: bool) -> Fraction:
    if whole:
        return Fraction(0 if value is None else parse_integer(value))
    try:
        return long_double.parse(b"0" if value is None else value)
    except ValueError as error:
        raise ReplyError(NOT_A_FLOAT) from error
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR value cannot be Infinity") from error


@handles(specs.INCREX)
def increx(client: Client, args: list[bytes]) -> bytes:
    """Add to the number at a key and set an expiry; reply with the number and with the amount that was added.

    Beyond a bound nothing is added, or with SATURATE only as much as the bound allows. With ENX an existing
    expiry stays. It is propagated as the equivalent SET; if the expiry is already past, the key is deleted.
    """
    name, db = args[1], client.db
    options = _Options(Arguments(args, 2), db.keyspace.now)
    words, whole = options.words, options.whole
    old = _present(write_string(client, name), whole=whole)
    new = _sum(old, options.amount, whole=whole)
    # A sum that the type does not hold is beyond all bounds, infinite ones, too.
    if not options.low <= new <= options.high or abs(new) == _INFINITY:
        if b"SATURATE" not in words:
            return _answer(client, old, Fraction(0), whole=whole)
        new = min(max(new, options.low), options.high)
    added = _difference(new, old, whole=whole)
    expiry = options.expiry
    if expiry is not None and b"ENX" in words and name in db.expires:
        expiry = None
    if expiry is None or not discard_expired(client, name, expiry, overwrites=False):
        text = b"%d" % new if whole else long_double.format_fixed(new)
        _store(client, name, text, expiry, whole=whole, persist=b"PERSIST" in words)
    return _answer(client, new, added, whole=whole)


def _store(
    client: Client, name: bytes, text: bytes, expiry: int | None, *, whole: bool, persist: bool
) -> None:
    db = client.db
    if whole:
        store(client, name, text, b"incrby", keep_ttl=True)
    else:
        store_sum(client, name, text)
    effect = [b"SET", name, text, b"KEEPTTL"]
    if expiry is not None:
        db.give_expiry(name, expiry)
        db.keyspace.notify(events.GENERIC, b"expire", name, db)
        effect = [b"SET", name, text, b"PXAT", b"%d" % expiry]
    elif persist:
        if db.clear_expiry(name):
            db.keyspace.notify(events.GENERIC, b"persist", name, db)
        effect = effect[:3]
    client.propagate(effect)


def _sum(old: Fraction, amount: Fraction, *, whole: bool) -> Fraction:
    """Add as the processor does; infinity if the floating point type overflows."""
    if whole:
        return old + amount
    try:
        return long_double.add(old, amount)
    except long_double.NotFiniteError:
        return _INFINITY if amount > 0 else -_INFINITY


def _difference(new: Fraction, old: Fraction, *, whole: bool) -> Fraction:
    """Return the added amount; raise ReplyError if the type cannot hold it."""
    if whole:
        if not INT64_MIN <= new - old <= INT64_MAX:
            raise ReplyError(b"ERR applied increment would overflow")
        return new - old
    try:
        return long_double.add(new, -old)
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR applied increment would be Infinity") from error


def _answer(client: Client, value: Fraction, added: Fraction, *, whole: bool) -> bytes:
    if whole:
        return replies.array([replies.integer(int(value)), replies.integer(int(added))])
    texts = [long_double.format_fixed(number) for number in (value, added)]
    return replies.array([b",%b\r\n" % text if client.resp == 3 else replies.bulk(text) for text in texts])
