"""The longest common subsequence of two strings: LCS.

The table of lengths has a row for each byte of the first string. A row is one integer: bit j is clear where the length
grows from j to j + 1. A row costs a few operations on a long integer instead of one operation per byte, and the length
at any position is the number of clear bits below it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ..runtime.arguments import Arguments
from ..runtime.client import Client
from ..spec.command import handles
from . import specs

_CELL_BYTES: Final = 4  # of the table that Redis builds, which may not be larger than a string


class _Match(NamedTuple):
    """A run of bytes in both strings: its start in each, and its length."""

    first: int
    second: int
    length: int


def _rows(first: bytes, second: bytes) -> list[int]:
    """Return the rows of the table, after the row for the empty prefix of the first string."""
    places: dict[int, int] = defaultdict(int)
    for place, byte in enumerate(second):
        places[byte] |= 1 << place
    full = (1 << len(second)) - 1
    row = full
    rows = [row]
    for byte in first:
        common = row & places.get(byte, 0)
        row = ((row + common) | (row - common)) & full
        rows.append(row)
    return rows


def _length(row: int, end: int) -> int:
    return end - (row & ((1 << end) - 1)).bit_count()


def _walk(first: bytes, second: bytes, rows: list[int]) -> list[_Match]:
    """Return the runs of the longest subsequence that Redis finds, the last run first."""
    found: list[_Match] = []
    i, j, run = len(first), len(second), 0
    while i and j:
        if first[i - 1] == second[j - 1]:
            i, j, run = i - 1, j - 1, run + 1
            continue
        if run:
            found.append(_Match(i, j, run))
            run = 0
        if _length(rows[i - 1], j) > _length(rows[i], j - 1):
            i -= 1
        else:
            j -= 1
    if run:
        found.append(_Match(i, j, run))
    return found


def _strings(client: Client, names: list[bytes]) -> list[bytes]:
    """Return the strings at the keys, empty for a missing key; look up both keys before refusing a type."""
    values = [client.db.read(name) for name in names]
    if any(value is not None and type(value) is not bytes for value in values):
        raise ReplyError(b"ERR The specified keys must contain string values")
    return [value if type(value) is bytes else b"" for value in values]


@handles(specs.LCS)
def lcs(client: Client, args: list[bytes]) -> bytes:
    """Reply with the longest common subsequence of two strings; with LEN, with its length.

    With IDX, reply with a map of ``matches`` (the last one first) and ``len``.
    """
    first, second = _strings(client, args[1:3])
    options = Arguments(args, 3)
    only_length = with_places = with_lengths = False
    shortest = 0
    while options:
        if options.take(b"LEN"):
            only_length = True
        elif options.take(b"IDX"):
            with_places = True
        elif options.take(b"WITHMATCHLEN"):
            with_lengths = True
        elif options.remaining > 1 and options.take(b"MINMATCHLEN"):
            shortest = options.integer()
        else:
            raise ReplyError(SYNTAX)
    if only_length and with_places:
        raise ReplyError(b"ERR If you want both the length and indexes, please just use IDX.")
    cells = (len(first) + 1) * (len(second) + 1)
    if cells * _CELL_BYTES > client.server.config.proto_max_bulk_len:
        raise ReplyError(b"ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    rows = _rows(first, second)
    length = _length(rows[-1], len(second))
    if only_length:
        return replies.integer(length)
    matches = _walk(first, second, rows)
    if not with_places:
        return replies.bulk(b"".join([first[at : at + size] for at, _, size in reversed(matches)]))
    runs = [_encode(match, with_length=with_lengths) for match in matches if match.length >= shortest]
    pairs = [(b"matches", replies.array(runs)), (b"len", replies.integer(length))]
    return replies.map_of(pairs, client.resp)


def _encode(match: _Match, *, with_length: bool) -> bytes:
    places = [
        replies.array([replies.integer(start), replies.integer(start + match.length - 1)])
        for start in (match.first, match.second)
    ]
    return replies.array([*places, replies.integer(match.length)] if with_length else places)
