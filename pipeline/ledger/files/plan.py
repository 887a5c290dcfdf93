"""Plan the pieces of a whole ledger in advance."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ..records.scan import START, Cursor, advance
from .folder import Part, read_folder
from .piece import FilePiece, read_piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

PIECE_SIZE: Final = 64 << 20


def plan(parts: list[Part], piece_size: int = PIECE_SIZE) -> list[FilePiece]:
    """Cut files into pieces of about ``piece_size`` bytes, in the order of their rows.

    Args:
        parts: from ``read_folder``.
        piece_size: bytes; 0: do not cut.

    Raises:
        LedgerError: a file cannot be read as records.
        OSError: a file cannot be read.
    """
    pieces: list[FilePiece] = []
    for part in parts:
        if part.is_whole():
            pieces.append(FilePiece(part.path, part.file_seq, part.is_base))
            continue
        cuts = _cut(part, piece_size)
        ends = cuts if part.is_open else [*cuts, None]
        pieces += [
            FilePiece(part.path, part.file_seq, part.is_base, start, end)
            for start, end in pairwise(ends)
            if start is not None
        ]
    return pieces


def _cut(part: Part, piece_size: int) -> list[Cursor]:
    """Return the places where a file is cut, beginning with its start; also the end of a growing file's whole records.

    Places are found by reading all records before them: 0.37 s of processor time for 106 MB in pieces of 64 MB, beside
    0.95 for the tasks. Guessing places and proving them took 0.20, and 0.94 with pieces of 8 MB.
    """
    size = part.size()
    step = piece_size or size
    cuts = [START]
    with open(part.path, "rb") as file:  # noqa: PTH123 - a path as Spark gave it
        while part.is_open or size - cuts[-1].position > step:
            end = advance(file, cuts[-1], size, step)
            if end == cuts[-1]:
                break
            cuts.append(end)
    return cuts


def read_ledger(path: str, *, piece_size: int = PIECE_SIZE, history: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a ledger in order, without Spark.

    Args:
        path: as in ``read_folder``.
        piece_size: as in ``plan``.
        history: as in ``read_folder``.

    Raises:
        SplitError: a file changed while it was read.
        LedgerError: the files cannot be read.
    """
    import pyarrow as pa

    for piece in plan(read_folder(path, history=history), piece_size):
        batches = list(read_piece(piece))
        if batches:
            yield from pa.Table.from_batches(batches).sort_by("ordinal").to_batches()
