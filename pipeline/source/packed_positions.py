"""Pack the positions of many streams into one short text: a Parquet file in base 85.

Columns of growing or similar numbers take a few bits for each number, and a name takes only what differs from the
previous one.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet

from ..redis import ids
from .positions import Position, StreamSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS: Final = (
    "id_ms", "id_seq", "added", "generation", "gone",
    "first_ms", "first_seq", "newest_ms", "newest_seq", "snapshot_added", "removed",
)  # fmt: skip
_SCHEMA: Final = pa.schema(
    [("name", pa.binary()), ("is_seen", pa.bool_()), *((name, pa.uint64()) for name in _NUMBERS)]
)
_ENCODINGS: Final = {"name": "DELTA_BYTE_ARRAY"} | dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED")
_NOTHING: Final = StreamSnapshot(None, None, None, None)


def pack(positions: Mapping[str, Position]) -> str:
    """Return the text; it stores a snapshot's newest entry and count as differences from the position's own."""
    rows = zip(*(_row(name, at) for name, at in positions.items()), strict=True)
    columns = [pa.array(column, each.type) for column, each in zip(rows, _SCHEMA, strict=True)]
    file = io.BytesIO()
    parquet.write_table(
        pa.table(columns, schema=_SCHEMA),
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding=_ENCODINGS,
        write_statistics=False,
        store_schema=False,
    )
    return base64.b85encode(file.getvalue()).decode()


def unpack(text: str) -> dict[str, Position]:
    """Read what ``pack`` wrote."""
    table = parquet.read_table(io.BytesIO(base64.b85decode(text)))
    columns = (table.column(each.name).to_pylist() for each in _SCHEMA)
    return dict(_of_row(*row) for row in zip(*columns, strict=True))


def _row(name: str, at: Position) -> tuple[Any, ...]:
    seen = at.snapshot or _NOTHING
    newer = None if seen.newest is None else (seen.newest - at.id) & ids.MAX_ID
    more = None if seen.added is None else (seen.added - (at.added or 0)) & ids.MAX_U64
    return (
        name.encode(errors="surrogatepass"),
        at.snapshot is not None,
        *ids.split(at.id),
        at.added,
        at.generation,
        at.gone,
        *_halves(seen.first),
        *_halves(newer),
        more,
        seen.removed,
    )


def _of_row(
    name: bytes,
    is_seen: bool,
    id_ms: int,
    id_seq: int,
    added: int | None,
    generation: int,
    gone: int,
    first_ms: int | None,
    first_seq: int | None,
    newer_ms: int | None,
    newer_seq: int | None,
    more: int | None,
    removed: int | None,
) -> tuple[str, Position]:
    last = ids.join(id_ms, id_seq)
    newer = _whole(newer_ms, newer_seq)
    snapshot = StreamSnapshot(
        _whole(first_ms, first_seq),
        None if newer is None else (last + newer) & ids.MAX_ID,
        None if more is None else ((added or 0) + more) & ids.MAX_U64,
        removed,
    )
    position = Position(last, added, generation, gone, snapshot if is_seen else None)
    return name.decode(errors="surrogatepass"), position


def _halves(stream_id: int | None) -> tuple[int | None, int | None]:
    return (None, None) if stream_id is None else ids.split(stream_id)


def _whole(ms: int | None, seq: int | None) -> int | None:
    return None if ms is None or seq is None else ids.join(ms, seq)
