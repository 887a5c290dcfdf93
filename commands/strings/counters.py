"""Strings as numbers: INCR and its variants, INCRBYFLOAT, INCREX."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ..keys.expiry import TIME_UNITS, checked_time_in
from ..runtime import long_double
from ..runtime.arguments import INT64_MAX, INT64_MIN, Arguments, parse_integer
from ..spec.command import handles
from . import specs
from .shared import store, write_string

if TYPE_CHECKING:
    from ..runtime.client import Client


def _increment(client: Client, args: list[bytes], amount: int) -> bytes:
    """Add to the number at a key, a missing key being 0; the expiry stays."""
    value = write_string(client, args[1])
    number = (0 if value is None else parse_integer(value)) + amount
    if not INT64_MIN <= number <= INT64_MAX:
        raise ReplyError(b"ERR increment or decrement would overflow")
    store(client, args[1], b"%d" % number, b"incrby", keep_ttl=True)
    client.propagate(args)
    return replies.integer(number)


@handles(specs.INCR)
def incr(client: Client, args: list[bytes]) -> bytes:
    """Reply with the new number."""
    return _increment(client, args, 1)


@handles(specs.DECR)
def decr(client: Client, args: list[bytes]) -> bytes:
    """Reply with the new number."""
    return _increment(client, args, -1)


@handles(specs.INCRBY)
def incrby(client: Client, args: list[bytes]) -> bytes:
    """Reply with the new number."""
    return _increment(client, args, parse_integer(args[2]))


@handles(specs.DECRBY)
def decrby(client: Client, args: list[bytes]) -> bytes:
    """Reply with the new number."""
    amount = parse_integer(args[2])
    if amount == INT64_MIN:
        raise ReplyError(b"ERR decrement would overflow")
    return _increment(client, args, -amount)


@handles(specs.INCRBYFLOAT)
def incrbyfloat(client: Client, args: list[bytes]) -> bytes:
    """Reply with the new number as a bulk string; the same text is stored, and propagated as SET."""
    value = write_string(client, args[1])
    try:
        present = long_double.parse(b"0" if value is None else value)
        text = long_double.format_fixed(long_double.add(present, long_double.parse(args[2])))
    except ValueError as error:
        raise ReplyError(NOT_A_FLOAT) from error
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR increment would produce NaN or Infinity") from error
    store(client, args[1], text, b"incrbyfloat", keep_ttl=True)
    client.propagate([b"SET", args[1], text, b"KEEPTTL"])
    return replies.bulk(text)


_WITH_VALUE: Final = frozenset((b"BYINT", b"BYFLOAT", b"LBOUND", b"UBOUND", *TIME_UNITS))


_ALONE: Final = frozenset((b"SATURATE", b"PERSIST", b"ENX"))


_GREATEST: Final = Fraction((1 << 16384) - (1 << 16320))  # the greatest 80-bit number


class _Options:
    """The parsed options, each given at most once; ``words`` holds the given options with their values."""

    __slots__ = ("unit", "words")

    def __init__(self, options: Arguments) -> None:
        self.words: dict[bytes, bytes] = {}
        self.unit = b""
        while options:
            option = options.option()
            if option in self.words or option not in _WITH_VALUE | _ALONE:
                raise ReplyError(SYNTAX)
            self.words[option] = options.next() if option in _WITH_VALUE else b""
            if option in TIME_UNITS:
                self.unit = option
        times = self.words.keys() & {*TIME_UNITS, b"PERSIST"}
        if len(times) > 1 or {b"BYINT", b"BYFLOAT"} <= self.words.keys():
            raise ReplyError(SYNTAX)
        if b"ENX" in self.words and not self.unit:
            raise ReplyError(b"ERR ENX flag requires an expiration")

    def expiry(self, now: int) -> int | None:
        """Return the absolute time in milliseconds, None without a unit."""
        if not self.unit:
            return None
        return checked_time_in(self.unit, self.words[self.unit], "increx", now)


def _parse(word: bytes, what: bytes, *, whole: bool) -> Fraction:
    if whole:
        return Fraction(parse_integer(word, b"ERR %b is not an integer or out of range" % what))
    try:
        return long_double.parse(word)
    except (ValueError, long_double.NotFiniteError) as error:
        raise ReplyError(b"ERR %b is not a valid float" % what) from error


def _present(value: bytes | None, *, whole: bool) -> Fraction:
    if whole:
        return Fraction(0 if value is None else parse_integer(value))
    try:
        return long_double.parse(b"0" if value is None else value)
    except (ValueError, long_double.NotFiniteError) as error:
        raise ReplyError(NOT_A_FLOAT) from error


@handles(specs.INCREX)
def increx(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number and the amount added: 0 (and no change) beyond a bound, unless SATURATE is given.

    With ENX an existing expiry stays. Propagated as the equivalent SET.
    """
    name, db = args[1], client.db
    options = _Options(Arguments(args, 2))
    words = options.words
    whole = b"BYFLOAT" not in words
    amount = _parse(words.get(b"BYINT", words.get(b"BYFLOAT", b"1")), b"Increment", whole=whole)
    low, high = (Fraction(INT64_MIN), Fraction(INT64_MAX)) if whole else (-_GREATEST, _GREATEST)
    low = _parse(words[b"LBOUND"], b"LBOUND", whole=whole) if b"LBOUND" in words else low
    high = _parse(words[b"UBOUND"], b"UBOUND", whole=whole) if b"UBOUND" in words else high
    if low > high:
        raise ReplyError(b"ERR LBOUND can't be greater than UBOUND")
    expiry = options.expiry(db.keyspace.now)
    old = _present(write_string(client, name), whole=whole)
    new = _sum(old, amount, whole=whole)
    if not low <= new <= high:
        if b"SATURATE" not in words:
            return _answer(client, old, Fraction(0), whole=whole)
        new = min(max(new, low), high)
    text = b"%d" % new if whole else long_double.format_fixed(new)
    store(client, name, text, b"incrby" if whole else b"incrbyfloat", keep_ttl=True)
    if expiry is not None and b"ENX" in words and name in db.expires:
        expiry = None
    told = [b"SET", name, text, b"KEEPTTL"]
    if expiry is not None:
        db.set_expiry(name, expiry)
        db.keyspace.notify(events.GENERIC, b"expire", name, db)
        told = [b"SET", name, text, b"PXAT", b"%d" % expiry]
    elif b"PERSIST" in words:
        if db.clear_expiry(name):
            db.keyspace.notify(events.GENERIC, b"persist", name, db)
        told = told[:3]
    client.propagate(told)
    return _answer(client, new, new - old, whole=whole)


def _sum(old: Fraction, amount: Fraction, *, whole: bool) -> Fraction:
    """Add as the processor does; the result is beyond all bounds where the type overflows."""
    if whole:
        return old + amount
    try:
        return long_double.add(old, amount)
    except long_double.NotFiniteError:
        return 2 * _GREATEST if amount > 0 else -2 * _GREATEST


def _answer(client: Client, value: Fraction, added: Fraction, *, whole: bool) -> bytes:
    if whole:
        return replies.array([replies.integer(int(value)), replies.integer(int(added))])
    texts = [long_double.format_fixed(number) for number in (value, added)]
    return replies.array([b",%b\r\n" % text if client.resp == 3 else replies.bulk(text) for text in texts])
