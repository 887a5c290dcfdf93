"""SORT: the elements of a list, set or sorted set in another order, returned or stored.

Texts are compared as in the C locale, the one of services and containers: byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf
from sys import float_info
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError
from ...protocol.key_slots import hash_tag, key_slot
from ...storage.collections.hash import Hash
from ...storage.collections.list import List
from ...storage.collections.set import Set
from ...storage.collections.sorted_set import SKIPLIST, SortedSet
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import find_field
from ...storage.value_types import Value
from ..runtime.arguments import Arguments, parse_double, parse_double_up_to_nul
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.versions import Compat
from . import specs
from .lifecycle import delete

_NO_NUMBER: Final = b"ERR One or more scores can't be converted into double"
_DENIED: Final = b"ERR %b option of SORT denied due to insufficient ACL permissions."
_NO_PATTERNS: Final = b"ERR %b option of SORT denied in Cluster mode."
_ELSEWHERE: Final = (
    b"ERR %b option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."
)
_DECIMAL: Final = re.compile(rb"[ \t\n\v\f\r]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_NOT_ZERO: Final = re.compile(rb"[^1-9eE]*[1-9]")
_HEXADECIMAL: Final = re.compile(
    rb"[ \t\n\v\f\r]*[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?\Z"
)
_INFINITE: Final = re.compile(rb"[ \t\n\v\f\r]*[+-]?inf(?:inity)?\Z", re.IGNORECASE)


@dataclass(slots=True)
class _Options:
    """The parsed options; without ``by`` the elements themselves are compared."""

    by: bytes | None = None
    gets: list[bytes] = field(default_factory=list)
    offset: int = 0
    count: int = -1  # below 0: all
    descending: bool = False
    alphabetic: bool = False
    target: bytes | None = None

    @property
    def is_unsorted(self) -> bool:
        """Return True if BY is the same for all elements, which means no sorting."""
        return self.by is not None and b"*" not in self.by


def _parse(client: Client, words: list[bytes], *, may_store: bool) -> _Options:
    options = _Options()
    arguments = Arguments(words, 2)
    while arguments:
        name = arguments.option()
        left = arguments.remaining
        if name == b"ASC":
            options.descending = False
        elif name == b"DESC":
            options.descending = True
        elif name == b"ALPHA":
            options.alphabetic = True
        elif name == b"LIMIT" and left >= 2:
            options.offset, options.count = arguments.integer(), arguments.integer()
        elif name == b"STORE" and may_store and left:
            options.target = arguments.next()
        elif name == b"BY" and left:
            options.by = arguments.next()
            if not options.is_unsorted:
                _check_slot(client, name, options.by, words[1])
                _check_reader(client, name)
        elif name == b"GET" and left:
            _check_slot(client, name, arguments.peek() or b"", words[1])
            _check_reader(client, name)
            options.gets.append(arguments.next())
        else:
            raise ReplyError(SYNTAX)
    return options


def _check_slot(client: Client, option: bytes, pattern: bytes, key: bytes) -> None:
    """Require, on a cluster node, that all keys that a pattern names are in the slot of the sorted key."""
    if not client.server.config.cluster_enabled:
        return
    if not client.server.compat.knows("7.4"):
        raise ReplyError(_NO_PATTERNS % option)
    tag = hash_tag(pattern)
    if pattern != b"#" and ((tag == pattern and b"*" in pattern) or key_slot(pattern) != key_slot(key)):
        raise ReplyError(_ELSEWHERE % option)


def _check_reader(client: Client, option: bytes) -> None:
    """Require permission to read all keys, because a pattern names its keys only at run time."""
    if not (client.trusted or client.user.is_unlimited or client.user.may_read_every_key()):
        raise ReplyError(_DENIED % option)


def _elements(value: Value | None, options: _Options) -> list[bytes]:
    """Return the elements in their own order; without other sorting DESC reverses an ordered type."""
    if value is None:
        return []
    if type(value) is List:
        elements = value.slice(0, len(value))
    elif type(value) is SortedSet:
        value.encoding = SKIPLIST  # as Redis converts a sorted set that it sorts
        elements = [member for _, member in value.order]
    elif type(value) is Set:
        return list(value)
    else:
        raise ReplyError(WRONG_TYPE)
    if options.descending and options.is_unsorted:
        elements.reverse()
    return elements


def _find(client: Client, pattern: bytes, element: bytes) -> bytes | None:
    """Return the value that a pattern names: ``#`` the element, ``prefix*`` a string, ``prefix*->field`` a field."""
    if pattern == b"#":
        return element
    before, star, after = pattern.partition(b"*")
    if not star:
        return None
    after, arrow, field_name = after.partition(b"->")
    if arrow and not field_name:
        after += arrow
    name = before + element + after
    value = client.db.read(name)
    if not field_name:
        return value if type(value) is bytes else None
    return find_field(client.db, name, value, field_name) if type(value) is Hash else None


def _number(text: bytes, compat: Compat) -> float:
    """Parse an element as a number: like a score, or by the rules of versions before 8.8."""
    if compat.sorts_numbers_as_scores:
        return parse_double(text, _NO_NUMBER, rounds=compat.rounds_scores)
    if not compat.reads_bounds_as_strtod:
        return parse_double_up_to_nul(text, _NO_NUMBER, as_strtod=False)
    return _number_7_0(text)


def _number_7_0(text: bytes) -> float:
    """Parse a number like C's strtod: an empty text is 0, overflow and underflow are errors."""
    if _DECIMAL.match(text):
        number = float(text)
        is_tiny = abs(number) < float_info.min and _NOT_ZERO.match(text)
        if isinf(number) or is_tiny:
            raise ReplyError(_NO_NUMBER)
        return number
    if not text:
        return 0.0
    try:
        if _HEXADECIMAL.match(text):
            return float.fromhex(text.decode())
        if _INFINITE.match(text):
            return float(text)
    except OverflowError:
        raise ReplyError(_NO_NUMBER) from None
    raise ReplyError(_NO_NUMBER)


def _order(
    client: Client, options: _Options, elements: list[bytes]
) -> Callable[[bytes], tuple[float | bool, bytes]]:
    """Return the sort key of elements, for one sort. Equal numbers are ordered by the bytes of the elements."""
    by = options.by
    compat = client.server.compat
    # All weights are looked up, even if one of them is not a number.
    weights = iter(list(elements) if by is None else [_find(client, by, element) for element in elements])

    def number(element: bytes) -> tuple[float | bool, bytes]:
        found = next(weights)
        return (0.0 if found is None else _number(found, compat)), element

    def text(_element: bytes) -> tuple[float | bool, bytes]:
        found = next(weights)
        if found is None:
            return False, b""
        # The locale's comparison ends at a zero byte; a stored result does not depend on locales.
        return True, found if options.target is not None else found.partition(b"\0")[0]

    return text if options.alphabetic else number


@handles(specs.SORT, may_store=True)
@handles(specs.SORT_RO, may_store=False)
def sort(client: Client, args: list[bytes], *, may_store: bool) -> bytes:
    """Sort the elements of a list, set or sorted set; reply with them, or with the values that GET names.

    With STORE, store the result and reply with its length. SORT_RO has no STORE, so that replicas can serve it.
    """
    options = _parse(client, args, may_store=may_store)
    value = client.db.read(args[1])
    if type(value) is Set and options.is_unsorted and (options.target is not None or client.is_script):
        # Sets have no order that replicas share or that a script may rely on.
        options.by, options.alphabetic = None, True
    elements = _elements(value, options)
    if not options.is_unsorted:
        elements.sort(key=_order(client, options, elements), reverse=options.descending)
    first = min(max(options.offset, 0), len(elements))
    elements = elements[first:] if options.count < 0 else elements[first : first + options.count]
    found: list[bytes | None] = list(elements)
    if options.gets:
        found = [_find(client, pattern, element) for element in elements for pattern in options.gets]
    if options.target is not None:
        if _store(client, options.target, [word or b"" for word in found]):
            client.propagate(args)
        return replies.integer(len(found))
    null = replies.null(client.resp)
    return replies.array([null if word is None else replies.bulk(word) for word in found])


def _store(client: Client, target: bytes, words: list[bytes]) -> bool:
    """Replace the value at a key by a list, or delete it if there are no words; return False if nothing changed."""
    db = client.db
    if not words:
        is_there = target in db.entries  # even an expired key, as in ``store_result``
        if is_there:
            delete(client, target)
        return is_there
    before = db.write(target)
    made = List(words)
    made.choose_encoding(db.keyspace.limits)
    db.overwrite(target, made, before, events.LIST, b"sortstore")
    if client.server.compat.present_lists_wake:
        db.signal_ready(target)
    db.keyspace.dirty += len(words)
    return True
