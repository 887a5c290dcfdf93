"""Checks that the parser's fast path runs before and after hiredis parses requests.

hiredis parses replies. It accepts more types than a request may have, and trusts every length.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Final

SHORT: Final = 1024
"""The largest argument, or data, in bytes, that fast paths take."""
LENGTHS: Final = {b"$%d" % length: length for length in range(SHORT + 1)}
"""Maps the header of a short bulk string, without its line end, to the string's length."""

_NEWLINE: Final = 10
_FEW: Final = 3  # type marks that are checked one by one
_SIZE: Final = [len(header) + len("\r\n\r\n") + length for header, length in LENGTHS.items()].__getitem__

# hiredis allocates as much as a header claims, so it must not see big claims.
BIG_ARRAY: Final = re.compile(rb"\*\d{5}").search
BIG_PUSH: Final = re.compile(rb">\d{5}").search


def claims_much(data: bytes) -> bool:
    """Return True if the data holds the header of a long array or push. Fast if long values have few `*` and `>`."""
    for mark, pattern in ((b"*", BIG_ARRAY), (b">", BIG_PUSH)):
        at = data.find(mark)
        for _ in range(_FEW):
            if at < 0:
                break
            if pattern(data, at, at + 6):
                return True
            at = data.find(mark, at + 1)
        else:
            if at >= 0 and pattern(data, at):
                return True
    return False


def holds_bulks(data: bytes, batch: list[list[bytes]], joined: bytes) -> bool:
    """Return True if data that hiredis parsed as these commands certainly holds only bulk strings, no other RESP types.

    hiredis also accepts `+`, `(` and `=`. For the same argument `+` and `(` are shorter than a bulk string, `=` is
    longer. If only one of these sorts can be present, the length of the data shows it. If both can, the number of
    lines comes first: `+` and `(` have one line, bulk strings and `=` two. hiredis skips the two bytes after an
    argument unchecked, but at most one line can end there.

    Args:
        data: as received.
        joined: all their arguments; if they contain line ends, counting lines proves nothing.
    """
    short = 43 in data or 40 in data
    # `=` alone on its line is an argument, as in MAXLEN = 1000, not a type.
    long = 61 in data and (len(data) > SHORT or data.count(b"=") != data.count(b"\n=\r\n"))
    if short and (long or len(batch) == 1):
        if _NEWLINE not in joined:
            if data.count(b"\r\n") != len(batch) + 2 * sum(map(len, batch)):
                return False
            short = False
        elif long:
            return False
    return not (short or long) or len(data) == _size(batch)


def _size(batch: list[list[bytes]]) -> int:
    """Return the length of commands in canonical form."""
    headers = sum([3 + len(str(len(command))) for command in batch])
    lengths = [*map(len, chain.from_iterable(batch))]
    if max(lengths) <= SHORT:
        return headers + sum(map(_SIZE, lengths))
    return headers + sum([5 + len(str(length)) + length for length in lengths])
