"""Strings as arrays of integers of any width: BITFIELD, BITFIELD_RO."""

from __future__ import annotations

import re
from io import SEEK_END, BytesIO
from typing import Final, NamedTuple

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.string import RAW
from ..runtime.arguments import Arguments
from ..runtime.client import Client
from ..spec.command import handles
from ..strings.shared import edited, read_string, store_changed, write_string
from . import specs
from .bits import parse_offset

_TYPE: Final = re.compile(rb"([iu])([1-9][0-9]?)\Z")
_BAD_TYPE: Final = (
    b"ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
)
_OVERFLOWS: Final = frozenset((b"WRAP", b"SAT", b"FAIL"))
_WIDEST: Final = {b"i": 64, b"u": 63}


class _Operation(NamedTuple):
    """One GET, SET or INCRBY: the position and type of its integer, the amount, the overflow rule."""

    verb: bytes
    signed: bool
    width: int
    offset: int
    amount: int
    overflow: bytes

    @property
    def end(self) -> int:
        """The number of bytes up to the end of the integer."""
        return (self.offset + self.width + 7) >> 3


def _parse_type(word: bytes) -> tuple[bool, int]:
    found = _TYPE.match(word)
    if found is None or int(found[2]) > _WIDEST[found[1]]:
        raise ReplyError(_BAD_TYPE)
    return found[1] == b"i", int(found[2])


def _parse(client: Client, words: list[bytes], *, reading: bool) -> list[_Operation]:
    operations: list[_Operation] = []
    overflow = b"WRAP"
    options = Arguments(words, 2)
    while options:
        verb = options.option()
        if verb == b"OVERFLOW" and options:
            overflow = options.option()
            if overflow not in _OVERFLOWS:
                raise ReplyError(b"ERR Invalid OVERFLOW type specified")
            continue
        needed = {b"GET": 2, b"SET": 3, b"INCRBY": 3}.get(verb)
        if needed is None or options.remaining < needed:
            raise ReplyError(SYNTAX)
        signed, width = _parse_type(options.next())
        offset = parse_offset(client, options.next(), width)
        if verb != b"GET" and reading:
            raise ReplyError(b"ERR BITFIELD_RO only supports the GET subcommand")
        amount = options.integer() if verb != b"GET" else 0
        operations.append(_Operation(verb, signed, width, offset, amount, overflow))
    return operations


def _get(data: BytesIO, at: _Operation) -> int:
    """Return the integer; all bits after the end of the string are clear."""
    start, stop = at.offset >> 3, at.end
    data.seek(start)
    piece = int.from_bytes(data.read(stop - start).ljust(stop - start, b"\0"))
    number = piece >> (8 * stop - at.offset - at.width) & ((1 << at.width) - 1)
    return number - (1 << at.width) if at.signed and number >> (at.width - 1) else number


def _set(data: BytesIO, at: _Operation, number: int) -> None:
    start, stop = at.offset >> 3, at.end
    shift = 8 * stop - at.offset - at.width
    mask = ((1 << at.width) - 1) << shift
    data.seek(start)
    before = int.from_bytes(data.read(stop - start).ljust(stop - start, b"\0"))
    data.seek(start)
    data.write((before & ~mask | number << shift & mask).to_bytes(stop - start))


def _fitted(number: int, at: _Operation) -> int | None:
    """Return a number as the type stores it under the overflow rule; None: it must not be stored."""
    low = -(1 << (at.width - 1)) if at.signed else 0
    high = low + (1 << at.width) - 1
    if low <= number <= high:
        return number
    if at.overflow == b"FAIL":
        return None
    if at.overflow == b"SAT":
        return high if number > high else low
    return (number - low) % (1 << at.width) + low


def _run(data: BytesIO, at: _Operation) -> tuple[int | None, bool]:
    """Run one operation; return its result, and True if it stored a different number."""
    old = _get(data, at)
    if at.verb == b"GET":
        return old, False
    amount = at.amount
    if at.verb == b"SET" and not at.signed:
        amount &= (1 << 64) - 1  # as C converts it: negative numbers become huge
    new = _fitted(amount if at.verb == b"SET" else old + amount, at)
    if new is None:
        return None, False
    _set(data, at, new)
    return (old if at.verb == b"SET" else new), new != old


@handles(specs.BITFIELD)
def bitfield(client: Client, args: list[bytes]) -> bytes:
    """Run GET, SET and INCRBY on integers within a string, in order.

    Reply with one number for each: the one that GET read, SET replaced or INCRBY stored; null where OVERFLOW FAIL stopped
    it.
    """
    name = args[1]
    operations = _parse(client, args, reading=False)
    writes = [operation for operation in operations if operation.verb != b"GET"]
    if not writes:
        return _read(client, name, operations)
    value = write_string(client, name)
    end = max(operation.end for operation in writes)
    present, grown = value is not None, value is None or end > len(value)
    del value  # so that it need not be copied
    answers: list[bytes] = []
    changes = 0

    def run(data: BytesIO) -> None:
        nonlocal changes
        for operation in operations:
            answer, changed = _run(data, operation)
            answers.append(replies.null(client.resp) if answer is None else replies.integer(answer))
            changes += changed or (grown and answer is not None and operation.verb != b"GET")
        if changes and data.seek(0, SEEK_END) < end:  # a write that OVERFLOW FAIL stopped extends it, too
            data.write(bytes(end - data.tell()))

    new = edited(client, name, run)
    if changes:
        store_changed(client, name, new, b"setbit")
        client.db.keyspace.dirty += changes - 1  # store counted one
        client.propagate(args)
    elif present:
        client.db.encodings[name] = RAW  # Redis unpacks the string before it reads the bits
    return replies.array(answers)


def _read(client: Client, name: bytes, operations: list[_Operation]) -> bytes:
    data = BytesIO(read_string(client, name) or b"")
    return replies.array([replies.integer(_get(data, operation)) for operation in operations])


@handles(specs.BITFIELD_RO)
def bitfield_ro(client: Client, args: list[bytes]) -> bytes:
    """Run GET on integers within a string; reply like BITFIELD."""
    return _read(client, args[1], _parse(client, args, reading=True))
