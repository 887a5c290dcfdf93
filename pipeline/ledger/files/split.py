r"""Cutting a long file into pieces that are read in parallel, at places where records begin.

A place is *certified* if a record begins there by all that can be seen around it: it follows a line end, a chain of
records begins there, and no length that stands before it (``\r\n$<n>\r\n``) reaches over it. All lengths are looked
for that could: short ones nearby, the greater the further back, up to the place before. Values can hold texts that
look like lengths; wherever that leaves a doubt (there may be a value around the place, or around the last SELECT) the
piece is walked over record by record, and the doubt is gone. Where no place is certified there is no split.

Nothing rests on this: each task proves that it ends exactly at the next one's beginning, with the same database, clock
and transaction; so, the first beginning at byte 0, all are right or a task fails.
"""

from __future__ import annotations

import mmap
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ....storage.aof.scanner import End, scan_by_hand
from ..records.scan import START, Cursor, Frontier, Walk, read_annotation
from ..schema import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    Bytes = mmap.mmap | bytes

_NEAR: Final = 1 << 16  # bytes before a place in which every length is looked at
_FAR: Final = 1 << 22  # bytes before a place in which great lengths are looked at
_AHEAD: Final = 1 << 18  # bytes behind a place that must be records
_HEAD: Final = 32  # bytes; more than the longest length has
_RECORD: Final = re.compile(rb"\*[1-9][0-9]*\r\n\$[0-9]+\r\n")
_SELECT: Final = re.compile(rb"\*2\r\n\$6\r\nSELECT\r\n\$[0-9]+\r\n([0-9]+)\r\n")
_TRIES: Final = 64  # places looked at before one byte offset is given up


def split_file(path: str, size: int, piece_size: int) -> list[Cursor]:
    """Return the places where a file of so many bytes is cut, the first at its start; about piece_size apart.

    Raises:
        OSError: it can not be read.
    """
    if size <= piece_size:
        return [START]
    with _mapped(path) as data:
        return split_bytes(data, min(size, len(data)), piece_size)


def split_bytes(data: Bytes, size: int, piece_size: int) -> list[Cursor]:
    """As ``split_file``."""
    found = [START]
    step = max(piece_size // BLOCK, 1) * BLOCK
    for target in range(step, size, step):
        position = place_at(data, target, found[-1].position, size)
        if position is not None and position > found[-1].position:
            cut = _cut_at(data, found[-1], position)
            if cut is not None:
                found.append(cut)
    return found


def place_at(data: Bytes, target: int, after: int, size: int) -> int | None:
    """Return where the record begins that holds the byte before ``target``, or ends behind it: the first of its block.

    None if no place near there is certified.
    """
    for certain in _certified(data, target, after, size):
        scan = scan_by_hand(data[certain : min(target + _AHEAD, size)])
        assert scan.begins is not None
        ends = [0, *scan.begins[1:], scan.consumed]
        if scan.end is End.BAD and certain + scan.consumed <= target:
            continue
        return max(certain + end for end in ends if certain + end <= target)
    return None


def end_where_whole(path: str, size: int, cuts: list[Cursor]) -> list[Cursor]:
    """Return the cuts of a file that is being written, and how far it is whole: a place in no transaction.

    Args:
        path: the file.
        size: bytes to look at.
        cuts: of ``split_file``; those in the transaction that is still open are left out.

    Raises:
        LedgerError: there are no records.
        OSError: it can not be read.
    """
    start = cuts[-1]
    if size > start.position:
        with _mapped(path) as data:
            # Behind the last cut there may be much; a place near the end will do.
            near = place_at(data, (size - 1) // BLOCK * BLOCK, start.position, size)
            if near is not None and near > start.position:
                start = _cut_at(data, start, near) or start
    before = [cut for cut in cuts if not cut.in_transaction]
    if start.in_transaction:
        start = before[-1]
    end = frontier(path, start, size)
    return [*(cut for cut in cuts if cut.position < end.position), end]


def frontier(path: str, start: Cursor, size: int) -> Cursor:
    """Return the last place behind a known one that is between records and in no transaction, of so many bytes."""
    with open(path, "rb") as file:  # noqa: PTH123
        file.seek(start.position)

        def read(count: int) -> bytes:
            return file.read(min(count, size - file.tell()))

        return Frontier(start).advance(read, size + 1)


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:  # noqa: PTH123
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _certified(data: Bytes, target: int, after: int, size: int) -> Iterator[int]:
    """Yield certified places at or before a byte, the nearest first; at last the one that is known."""
    lowest = max(after, target - _FAR)
    place = target
    for _ in range(_TRIES):
        place = data.rfind(b"\r\n*", lowest, place) + 2
        if place < 2:
            break
        if _is_certified(data, place, after, size):
            yield place
    if target - after <= _FAR:
        yield after


def _is_certified(data: Bytes, place: int, after: int, size: int) -> bool:
    head = data[place : place + 64]
    if not _RECORD.match(head):
        return False
    scan = scan_by_hand(data[place : min(place + _AHEAD, size)])
    if scan.end is End.BAD or not scan.commands:
        return False
    return _is_uncovered(data, place, after)


def _is_uncovered(data: Bytes, place: int, after: int) -> bool:
    """Return whether no length that stands before a place, not too far away and behind one that is known, reaches over it."""
    near = max(place - _NEAR, after)
    far = max(place - _FAR, after)
    return not (
        _reaches_over(1, data, near, place, place)
        or _reaches_over(_NEAR, data, far, min(near + _HEAD, place), place)
    )


def _reaches_over(least: int, data: Bytes, start: int, end: int, place: int) -> bool:
    """Return whether a length between start and end, which may be of so many bytes at least, claims bytes behind a place."""
    found = _lengths(len(str(least))).finditer(data, start, end)
    return any(match.end() + int(match[1]) + 2 > place for match in found)


@lru_cache
def _lengths(digits: int) -> re.Pattern[bytes]:
    return re.compile(rb"\r\n\$([0-9]{%d,})\r\n" % digits)


class _Doubt(Exception):  # noqa: N818 - nothing went wrong
    """What was found may be in a value, or not."""


def _cut_at(data: Bytes, before: Cursor, position: int) -> Cursor | None:
    """Return a certified place with what the record there depends on, from the place before; None if there is no record."""
    try:
        for match in _lengths(len(str(_FAR))).finditer(data, before.position, position):
            if int(match[1]) >= _FAR:
                raise _Doubt  # noqa: TRY301 - as everywhere below
        return _state_at(data, before, position)
    except _Doubt:
        return _walked(data, before, position)


def _walked(data: Bytes, before: Cursor, position: int) -> Cursor | None:
    """As ``_cut_at``, by going over all records between."""
    walk = Walk(before)
    db, in_transaction = before.db, before.in_transaction
    while walk.position < position:
        upto = min(walk.position - walk.position % BLOCK + BLOCK, position)
        for command in walk.feed(data[walk.position : upto]).commands:
            name = command[0].upper()
            if name == b"SELECT":
                db = int(command[1])
            elif name in {b"MULTI", b"EXEC"}:
                in_transaction = name == b"MULTI"
    return Cursor(position, db, walk.clock, in_transaction) if walk.ends_whole() else None


def _state_at(data: Bytes, before: Cursor, position: int) -> Cursor:
    """Return what a record at a place depends on.

    Raises:
        _Doubt: that can not be seen without going over all records.
    """
    start = before.position
    db, clock, in_transaction = before.db, before.clock, before.in_transaction
    at = _last(data, b"*2\r\n$6\r\nSELECT\r\n", start, position)
    if at >= start and (match := _SELECT.match(data[at : at + 64])):
        db = int(match[1])
    at = max(_last(data, b"#MS:", start, position), _last(data, b"#TS:", start, position))
    if at >= start:
        line = data[at : data.find(b"\n", at) + 1]
        if not line[4:].strip().isdigit():
            raise _Doubt
        clock = read_annotation(line, clock)
    opened = _last(data, b"*1\r\n$5\r\nMULTI\r\n", start, position)
    closed = _last(data, b"*1\r\n$4\r\nEXEC\r\n", start, position)
    if max(opened, closed) >= start:
        in_transaction = opened > closed
    return Cursor(position, db, clock, in_transaction)


def _last(data: Bytes, text: bytes, start: int, end: int) -> int:
    """Return where a text stands last at the beginning of a line and in no value; -1 if nowhere.

    Raises:
        _Doubt: where it stands may be in a value.
    """
    at = _rfind(data, b"\n" + text, max(start - 1, 0), end) + 1
    if at <= start:
        # What begins where we do has no line before it if that is the beginning of the file.
        return start if data[start : start + len(text)] == text else -1
    if not _is_uncovered(data, at, start):
        raise _Doubt
    return at


def _rfind(data: Bytes, text: bytes, start: int, end: int) -> int:
    """As ``rfind``, but quick where the text is frequent."""
    near = max(start, end - _NEAR)
    at = data.rfind(text, near, end)
    return at if at >= 0 or near == start else data.rfind(text, start, min(near + len(text), end))
