"""Pack the positions of many streams into one short text.

Each number of a position is a column, and each byte of a column is compressed separately: random low bytes stay as
long as they are, and equal high bytes shrink to almost nothing. Of a name only the part that differs from the
previous name is stored.

The first entry of a snapshot is left out, because it would take a third of the text: a running query remembers it,
and after a restart `loss_detection` decides without it.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from ..redis import ids
from .positions import ENDED, Position, StreamSnapshot

_NOTHING: Final = StreamSnapshot(None, None, None, None)
# A lower level finds more matches than pay in random bytes, 19 none that do.
_ZSTD: Final = pa.Codec("zstd", 13)
# How many streams, and bytes of names; the middle of the ids in milliseconds; how many bytes each column has.
_HEAD: Final = struct.Struct("<IIQ12B")
_SEEN, _ENDED, _ADDED, _NEWEST, _READ, _SEEN_ADDED, _REMOVED, _LENGTH = (1 << bit for bit in range(8))


def pack(positions: Mapping[str, Position]) -> str:
    """Encode positions as a text; the first entries of their snapshots are left out."""
    middle = sorted(at.id >> 64 for at in positions.values())[len(positions) // 2]
    shared, lengths, tails = _front_coded(tuple(positions))
    columns = [shared, lengths, *zip(*(_row(at, middle) for at in positions.values()), strict=True)]
    widths = [(max(column).bit_length() + 7) // 8 for column in columns]
    parts = [_HEAD.pack(len(positions), len(tails), middle, *widths), _ZSTD.compress(tails, asbytes=True)]
    for column, width in zip(columns, widths, strict=True):
        whole = struct.pack(f"<{len(column)}Q", *column)
        parts += [_ZSTD.compress(whole[byte::8], asbytes=True) for byte in range(width)]
    return base64.b85encode(b"".join(parts)).decode()


def unpack(text: str) -> dict[str, Position]:
    """Decode the result of ``pack``, even in its first form: a Parquet file."""
    data = base64.b85decode(text)
    if data.startswith(b"PAR1"):
        return _of_parquet(data)
    count, at, middle, *widths = _HEAD.unpack_from(data)
    whole = _ZSTD.decompress(data[_HEAD.size :], at + count * sum(widths), asbytes=True)
    tails = whole[:at]
    columns = []
    for width in widths:
        column = bytearray(8 * count)
        for byte in range(width):
            column[byte::8] = whole[at : at + count]
            at += count
        columns.append(struct.unpack(f"<{count}Q", column))
    found, name, at = {}, b"", 0
    for keep, length, *row in zip(*columns, strict=True):
        own = length - keep
        name = name[:keep] + tails[at : at + own]
        at += own
        found[name.decode(errors="surrogatepass")] = _of_row(middle, *row)
    return found


@lru_cache(maxsize=1)
def _front_coded(names: Sequence[str]) -> tuple[list[int], list[int], bytes]:
    """Return how many bytes each name shares with the previous one, its length, and the bytes of its own."""
    coded = [name.encode(errors="surrogatepass") for name in names]
    shared = [_shared(*each) for each in pairwise([b"", *coded])]
    tails = b"".join(name[keep:] for name, keep in zip(coded, shared, strict=True))
    return shared, [len(name) for name in coded], tails


def _shared(one: bytes, other: bytes) -> int:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


def _row(at: Position, middle: int) -> tuple[int, ...]:
    """Return the numbers of a position, each below 2^64; the flags say which are none, and what they are."""
    seen = at.snapshot or _NOTHING
    flags = (
        (_SEEN if at.snapshot is not None else 0)
        | (_ENDED if at.is_ended else 0)
        | (_ADDED if at.added is not None else 0)
        | (_NEWEST if seen.newest is not None else 0)
        | (_READ if seen.newest == at.id else 0)
        | (_SEEN_ADDED if seen.added is not None else 0)
        | (_REMOVED if seen.removed is not None else 0)
    )
    ms, seq = ids.split(at.id)
    newest_ms, newest_seq = (0, 0)
    if seen.newest is not None and seen.newest != at.id:
        newest_ms, newest_seq = ids.split(seen.newest)
        newest_ms = _distance(newest_ms, middle)
    more = 0 if seen.added is None else (seen.added - (at.added or 0)) & ids.MAX_U64
    removed = seen.removed or 0
    # A stream that is trimmed has about the same length always.
    if (length := ((seen.added or 0) - removed) & ids.MAX_U64) < removed:
        flags |= _LENGTH
        removed = length
    return (
        *(flags, _distance(ms, middle), seq, at.added or 0, at.generation, at.gone),
        *(newest_ms, newest_seq, more, removed),
    )


def _of_row(
    middle: int,
    flags: int,
    ms: int,
    seq: int,
    added: int,
    generation: int,
    gone: int,
    newest_ms: int,
    newest_seq: int,
    more: int,
    removed: int,
) -> Position:
    last = ids.join(_at_distance(ms, middle), seq)
    newest = last if flags & _READ else ids.join(_at_distance(newest_ms, middle), newest_seq)
    seen_added = (added + more) & ids.MAX_U64 if flags & _SEEN_ADDED else None
    if flags & _LENGTH:
        removed = ((seen_added or 0) - removed) & ids.MAX_U64
    snapshot = StreamSnapshot(
        ENDED.first if flags & _ENDED else None,
        newest if flags & _NEWEST else None,
        seen_added,
        removed if flags & _REMOVED else None,
    )
    known = added if flags & _ADDED else None
    return Position(last, known, generation, gone, snapshot if flags & _SEEN else None)


def _distance(ms: int, middle: int) -> int:
    """Return how far two numbers below 2^64 are apart, twice, with the direction as the lowest bit."""
    ahead = (ms - middle) & ids.MAX_U64
    return 2 * ahead if ahead < 1 << 63 else 2 * (ids.MAX_U64 - ahead) + 1


def _at_distance(distance: int, middle: int) -> int:
    half = distance >> 1
    return (middle + (~half if distance & 1 else half)) & ids.MAX_U64


def _of_parquet(data: bytes) -> dict[str, Position]:
    """Read a file whose newest entry and count are differences from the position's own."""
    from pyarrow import parquet  # only for old checkpoints: each task imports this module

    found = {}
    for row in parquet.read_table(io.BytesIO(data)).to_pylist():
        last, added = ids.join(row["id_ms"], row["id_seq"]), row["added"]
        newer, more = _whole(row["newest_ms"], row["newest_seq"]), row["snapshot_added"]
        snapshot = StreamSnapshot(
            _whole(row["first_ms"], row["first_seq"]),
            None if newer is None else (last + newer) & ids.MAX_ID,
            None if more is None else ((added or 0) + more) & ids.MAX_U64,
            row["removed"],
        )
        name = row["name"].decode(errors="surrogatepass")
        found[name] = Position(
            last, added, row["generation"], row["gone"], snapshot if row["is_seen"] else None
        )
    return found


def _whole(ms: Any, seq: Any) -> int | None:
    return None if ms is None else ids.join(ms, seq)
