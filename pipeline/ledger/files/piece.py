"""Read one piece of one file as batches of rows, and prove that it begins and ends at the expected places.

Tasks get pieces: they can be pickled, and contain all that a task needs.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

import pyarrow as pa

from ....storage.rdb import ByteSource, is_rdb
from .. import schema as on
from ..errors import LedgerError, SplitError
from ..records.arrow_batches import batches
from ..records.rdb_rows import base_streams, stream_rows
from ..records.recorder import Recorder
from ..records.scan import START, Cursor, Segment, Walk
from ..records.sorter import Sorter

_GZIP: Final = b"\x1f\x8b"
_BATCH: Final = 1 << 15  # rows


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A part of a file of the ledger, from ``start`` to ``end``."""

    path: str  # of the file
    file_seq: int  # as in the rows
    is_base: bool = False  # whether the rows describe the state before the first incr file
    start: Cursor = START  # where it begins; the previous piece proves that this is right
    # Where it must end, and the state there; None: at the end of the file, which must be whole.
    end: Cursor | None = None
    data: bytes | None = None  # the bytes from start to end, if the file may be gone


def read_piece(piece: FilePiece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, in no particular order: sort them by ``ordinal``.

    Raises:
        SplitError: it does not begin or end as expected: its rows are wrong.
        LedgerError: the file is damaged, or has a record that cannot be understood.
    """
    start = piece.start
    with open_path(piece.path) if piece.data is None else io.BytesIO(piece.data) as file:
        if piece.data is None:
            if not start.position:
                source = ByteSource(file.read)
                if is_rdb(source):
                    yield from _read_rdb(piece, source)
                    return
            file.seek(start.position)
        yield from _Reading(piece, start).batches(file)


def _read_rdb(piece: FilePiece, source: ByteSource) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an RDB file, and of commands that follow it."""
    sorter = Sorter(Recorder())
    recorder = sorter.recorder
    for db, key, stream in base_streams(source):
        recorder.rows += stream_rows(db, key, None, stream)
    number = len(recorder.rows)
    first = _origin(piece) + source.position // on.BLOCK * on.BLOCK_ORDINAL
    recorder.rows_at += range(first, first + number)
    yield from batches(sorter, piece.file_seq)
    if source.peek(1):
        start = Cursor(source.position, index=number // on.RECORD + 1)
        yield from _Reading(piece, start).batches(source)


def _origin(piece: FilePiece) -> int:
    return on.BASE_ORDINAL if piece.is_base else 0


class _Reading:
    """Reads the commands of a piece, starting at some place."""

    def __init__(self, piece: FilePiece, start: Cursor) -> None:
        self._piece = piece
        self._walk = Walk(start)
        self._sorter = Sorter(Recorder(start.db, start.clock))
        self._block = start.position // on.BLOCK
        self._index = start.index  # of the next record, if it ends in this block

    def batches(self, file: IO[bytes] | ByteSource) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        sorter = self._sorter
        end = None if self._piece.end is None else self._piece.end.position
        for segment in self._walk.segments(file.read, end):
            sorter.take(segment.commands, self._ordinals(segment), segment.clocks)
            if sorter.rows >= _BATCH:
                yield from batches(sorter, self._piece.file_seq)
        self._prove()
        yield from batches(sorter, self._piece.file_seq)

    def _ordinals(self, segment: Segment) -> range:
        """Return the ordinals of the next records, all of which end in one block."""
        if segment.block != self._block:
            self._block, self._index = segment.block, 0
        first = _origin(self._piece) + self._block * on.BLOCK_ORDINAL + self._index * on.RECORD
        self._index += len(segment.commands)
        return range(first, first + len(segment.commands) * on.RECORD, on.RECORD)

    def _prove(self) -> None:
        """Check that this piece ends where the next one begins, in the same state.

        The first piece begins where the file begins, so by induction all pieces are right.
        """
        piece, end = self._piece, self._piece.end
        walk, recorder = self._walk, self._sorter.recorder
        is_whole = walk.ends_whole() and not recorder.in_transaction
        if end is None:
            if not is_whole:
                raise LedgerError(f"{piece.path} ends within a record or transaction")
            return
        reached = (walk.position, recorder.db, walk.clock)
        if not is_whole or reached != (end.position, end.db, end.clock):
            raise SplitError(
                f"{piece.path} was split at byte {end.position}, which is within a record or transaction, or in another state than when "
                "it was split; has something else than a server written to it in between?"
            )


def open_path(path: str) -> IO[bytes]:
    """Open a file, decompressed if it is gzipped."""
    file = open(path, "rb")  # noqa: PTH123, SIM115 - a path as Spark gave it; the caller closes
    head = file.read(len(_GZIP))
    file.seek(0)
    if head != _GZIP:
        return file
    file.close()
    return gzip.open(path)  # type: ignore[return-value]
