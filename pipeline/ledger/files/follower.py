"""Follow an append-only folder while a server writes to it and rewrites it.

A place in the ledger is a file and a cursor in it. Places are always between two records and outside of transactions.
They are found by reading every record before them, so no piece depends on a proof by another one.

A process can read files that a rewrite has removed as long as it has them open. So the follower opens each file when
it first sees it. A removed file that was not open is lost, which is an error. Servers that keep history
(``aof-history-retention``, ``aof-disable-auto-gc yes``) lose nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

from ..errors import LedgerError, RowsLostError
from ..records.scan import START, Cursor, advance
from .folder import Part, is_whole_head, read_folder
from .piece import FilePiece

_INLINE: Final = 1 << 20  # bytes that are given to a task rather than the name of their file
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a reader: a file, and a cursor in it."""

    file_seq: int
    is_base: bool
    cursor: Cursor = START

    def encode(self) -> dict[str, Any]:
        """Return the reader's place as the dict that Spark's checkpoint keeps."""
        cursor = self.cursor
        return {
            "v": _VERSION,
            "file": self.file_seq,
            "base": self.is_base,
            "position": cursor.position,
            "db": cursor.db,
            "clock": cursor.clock,
            "index": cursor.index,
        }

    @classmethod
    def decode(cls, offset: dict[str, Any]) -> Place:
        """Return the place in a dict from ``encode``. Raises LedgerError: it has an unknown version."""
        if offset.get("v") != _VERSION:
            raise LedgerError(f"an offset that this version does not know: {offset}")
        cursor = Cursor(offset["position"], offset["db"], offset["clock"], offset["index"])
        return cls(offset["file"], offset["base"], cursor)


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of a file, and the place after it."""

    piece: FilePiece | None
    place: Place


class Follower:
    """Reads an append-only folder piece by piece while it grows.

    Args:
        path: as in ``read_folder``.
        piece_size: approximate maximum bytes of one piece; 0: files are not cut.
        history: whether to begin with kept files.
        tolerate_loss: if unread files are gone, continue with the oldest base that exists.
    """

    def __init__(
        self, path: str, *, piece_size: int, history: bool = True, tolerate_loss: bool = False
    ) -> None:
        self._path = path
        self._piece_size = piece_size or 1 << 62
        self._history = history
        self._tolerates_loss = tolerate_loss
        self._files: dict[tuple[int, bool], tuple[Part, IO[bytes]]] = {}
        self._steps: dict[tuple[Place, Place], list[Step]] = {}
        self._target: tuple[int, int] | None = None  # a file, and bytes of it

    def first(self) -> Place:
        """Return the place of the first record of the ledger."""
        part = self._look()[0]
        return Place(part.file_seq, part.is_base)

    def last(self) -> Place:
        """Return the place after the last whole record at present."""
        part = self._look()[-1]
        steps = list(self._walk(Place(part.file_seq, part.is_base), None))
        return steps[-1].place if steps else Place(part.file_seq, part.is_base)

    def stop_here(self) -> None:
        """Take the present end of the files as the end of the ledger: later records are ignored."""
        part = self._look()[-1]
        self._target = part.file_seq, part.size()

    def backlog(self, place: Place) -> dict[str, Any]:
        """Return what follows a place, including compressed files and files that a rewrite has not replaced yet.

        Return ``file`` and ``position``: the file being written, and its size; ``bytes_behind``: bytes on disk up to
        there; ``seconds_behind``: from the last annotation read to the last write; None before the first annotation.
        """
        last = self._look()[-1]
        stats = {key: os.fstat(file.fileno()) for key, (_, file) in self._files.items()}
        newest = stats[last.file_seq, last.is_base]
        here = place.file_seq, place.is_base
        size = stats[here].st_size - place.cursor.position if here in stats else 0
        first = place.file_seq if place.is_base else place.file_seq + 1
        size += sum(each.st_size for (seq, is_base), each in stats.items() if seq >= first and not is_base)
        seconds = None
        if size <= 0:
            seconds = 0.0
        elif place.cursor.clock is not None:
            seconds = max(newest.st_mtime_ns // 1_000_000 - place.cursor.clock, 0) / 1000
        return {
            "file": last.file_seq, "position": newest.st_size, "bytes_behind": max(size, 0), "seconds_behind": seconds,
        }  # fmt: skip

    def ahead(self, start: Place, most: int) -> Place:
        """Return a place about ``most`` bytes after ``start``, or after the last whole record if it comes first.

        It is ``start`` if nothing is new.
        """
        steps = list(self._walk(start, most))
        end = steps[-1].place if steps else start
        self._steps = {(start, end): steps}
        return end

    def pieces(self, start: Place, end: Place) -> list[FilePiece]:
        """Return the pieces of files between two places."""
        steps = self._steps.get((start, end))
        if steps is None:
            steps = list(self._walk(start, None, end))
        return [step.piece for step in steps if step.piece is not None]

    def forget(self, end: Place) -> None:
        """Close the files before ``end``: they have been processed."""
        for key in [key for key in self._files if key < (end.file_seq, not end.is_base)]:
            if key != (end.file_seq, end.is_base):
                self._files.pop(key)[1].close()

    def close(self) -> None:
        """Close all files of the folder."""
        for _, file in self._files.values():
            file.close()
        self._files.clear()

    def _look(self) -> list[Part]:
        """Return the current files, and keep them open."""
        while True:
            parts = read_folder(self._path, history=self._history)
            try:
                for part in parts:
                    if (part.file_seq, part.is_base) not in self._files:
                        file = open(part.path, "rb")  # noqa: PTH123, SIM115 - closed by forget
                        self._files[part.file_seq, part.is_base] = part, file
            except FileNotFoundError:
                continue  # a rewrite came between
            return parts

    def _walk(self, start: Place, most: int | None, upto: Place | None = None) -> Iterator[Step]:
        place, left = start, most
        while place != upto and (left is None or left > 0):
            parts = self._look()
            following = self._following(place, parts)
            key = place.file_seq, place.is_base
            if key not in self._files:
                if upto is None and self._tolerates_loss:
                    place = Place(parts[0].file_seq, parts[0].is_base)
                    yield Step(None, place)
                    continue
                raise RowsLostError(
                    f"{self._path}: file {place.file_seq} is gone and was not read to its end; keep files that rewrites "
                    'replace (aof-history-retention; aof-disable-auto-gc yes), or set .option("failOnDataLoss", "false") '
                    "to go on with the base that took its place"
                )
            part, file = self._files[key]
            size = os.fstat(file.fileno()).st_size  # after the manifest: a file with a successor is final
            if self._target is not None and not place.is_base and place.file_seq >= self._target[0]:
                size, following = min(size, self._target[1]), None
            if upto is not None and key == (upto.file_seq, upto.is_base):
                size, following = upto.cursor.position, None
            if size < place.cursor.position:
                raise RowsLostError(f"{part.path} is shorter than what was read of it")
            if (place.is_base or following) and _is_whole(file):
                if following is None:
                    return
                place = following
                left = left if left is None else left - size
                yield Step(FilePiece(part.path, part.file_seq, part.is_base), place)
                continue
            most = self._piece_size if left is None else min(self._piece_size, left)
            end = advance(file, place.cursor, size, most)
            if end == place.cursor:
                if following is None:
                    return
                if end.position < size:
                    raise LedgerError(f"{part.path} ends within a record or transaction")
                place = following
                yield Step(None, place)
                continue
            piece = FilePiece(
                part.path,
                part.file_seq,
                part.is_base,
                place.cursor,
                end,
                self._inline(part, file, place, end),
            )
            left = left if left is None else left - (end.position - place.cursor.position)
            place = Place(place.file_seq, place.is_base, end)
            yield Step(piece, place)

    def _following(self, place: Place, parts: list[Part]) -> Place | None:
        # Include files that are removed but still open.
        seqs = {seq for seq, is_base in self._files if not is_base}
        seqs |= {part.file_seq for part in parts if not part.is_base}
        if place.is_base:
            return Place(place.file_seq, is_base=False) if place.file_seq in seqs else None
        later = [seq for seq in seqs if seq > place.file_seq]
        if not later:
            return None
        if min(later) > place.file_seq + 1 and not self._tolerates_loss:
            raise RowsLostError(f"{self._path}: file {place.file_seq + 1} came and went unread")
        return Place(min(later), is_base=False)

    @staticmethod
    def _inline(part: Part, file: IO[bytes], place: Place, end: Cursor) -> bytes | None:
        length = end.position - place.cursor.position
        if length > _INLINE and part.exists():
            return None
        file.seek(place.cursor.position)
        return file.read(length)


def _is_whole(file: IO[bytes]) -> bool:
    file.seek(0)
    return is_whole_head(file.read(5))
