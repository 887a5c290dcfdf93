"""Find all entries that a stream ever had, in an append-only folder, including entries from its time under other names.

Over time a name stands for different streams: keys are deleted and created again, renamed, copied, moved, swapped and
restored. Here each of those streams has a number. A stream that was made from another one has that one as its parent,
and shares the parent's past up to that moment. A first walk over the files finds the numbers that the wanted name ever stood for;
a second walk takes their entries. If entries are not in ID order in the files, more walks follow, and their results
are merged.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from ...storage.streams.iteration import iter_entries
from ...storage.streams.stream import Stream
from ..redis import ids
from ..redis.key_names import key_of
from . import schema as on
from .files.folder import Part, read_folder
from .files.piece import open_path
from .records.rdb_rows import base_streams, restored_stream
from .records.recorder import Recorder
from .records.scan import START, Walk
from .spelling import spell_name

Place = tuple[int, str]  # database and name, as the ledger writes it

# These commands change entries, groups and deliveries, but never which stream a key holds.
_WITHIN: Final = frozenset(b"XCLAIM XACK XACKDEL XDEL XDELEX XNACK XTRIM XGROUP XSETID MULTI EXEC".split())
_RESTORE: Final = frozenset({b"RESTORE", b"RESTORE-ASKING"})


class Entry(NamedTuple):
    """An entry: its id as an integer, and its fields and values in one flat list."""

    stream_id: int
    words: list[bytes]


@dataclass(slots=True)
class _Numbered:
    """A stream: its parent, the place where it was split from that, and the places of its first and last entries."""

    parent: int | None = None
    since: int = 0
    first_at: int = 0
    last_at: int = -1
    first_id: int = 0
    last_id: int = -1

    def is_before(self, other: _Numbered) -> bool:
        """Return True if all its entries precede the other's, in the files and by their ids."""
        return self.last_at <= other.first_at and self.last_id < other.first_id


@dataclass
class _Streams:
    """Tracks which stream every name stands for while commands are read in file order; the same in each walk.

    ``held`` has, for each watched name, the streams that it has stood for so far.
    """

    watched: frozenset[Place] = frozenset()
    held: dict[Place, set[int]] = field(default_factory=dict)
    names: dict[Place, int] = field(default_factory=dict)
    all: list[_Numbered] = field(default_factory=list)
    at: int = 0
    _recorder: Recorder = field(default_factory=Recorder)

    def add(self, place: Place, stream_id: int) -> int:
        """Add an entry to a stream; return the stream's number. A new number begins where ids would not ascend (XSETID)."""
        number = self.names.get(place)
        if number is None or self.all[number].last_id >= stream_id:
            number = self._new(place, number)
        numbered = self.all[number]
        if numbered.last_id < 0:
            numbered.first_id, numbered.first_at = stream_id, self.at
        numbered.last_id, numbered.last_at = stream_id, self.at
        return number

    def take(self, words: list[bytes]) -> Iterator[tuple[int, int, list[bytes] | bytes]]:
        """Apply a command; yield the number, id and fields of each entry that it adds."""
        self.at += 1
        name = words[0].upper()
        if name in _WITHIN or not self._recorder.knows(name):
            return
        if name == b"XADD":
            place, _, _ = Recorder._limits(words, 2)  # noqa: SLF001 - it parses XADD's options
            if b"*" not in words[place]:  # else a producer has repeated itself
                stream_id = ids.parse(words[place])
                number = self.add((self._recorder.db, spell_name(words[1])), stream_id)
                yield number, stream_id, words[place + 1 :]
            return
        self._recorder.take(words, 0)
        for row in self._recorder.rows:
            self._follow(row)
        self._recorder.empty()
        if name in _RESTORE and (stream := restored_stream(words[3])) is not None:
            yield from self.found(self._recorder.db, words[1], stream)

    def found(self, db: int, key: bytes, stream: Stream) -> Iterator[tuple[int, int, bytes]]:
        """Yield the entries of a stream that already exists, in the form of ``take``."""
        place = (db, spell_name(key))
        for stream_id, _, payload in iter_entries(stream):
            yield self.add(place, stream_id), stream_id, payload

    def _follow(self, row: Any) -> None:
        db, stream, event, detail = row[0], row[1], row[5], row[10]
        if event == on.KEY_COPIED:
            there, _, source = detail.decode().partition(" ")
            parent = self.names.get((int(there), source))
            if parent is None:
                self.names.pop((db, spell_name(stream)), None)
            else:
                self._new((db, spell_name(stream)), parent)
        elif event == on.KEY_DELETED:
            if stream is not None:
                self.names.pop((db, spell_name(stream)), None)
            else:
                gone = [place for place in self.names if db in {None, place[0]}]
                for place in gone:
                    del self.names[place]
        elif event == on.DATABASES_SWAPPED:
            swapped = {db: int(detail), int(detail): db}
            before, self.names = self.names, {}
            for place, number in before.items():
                if place[0] in swapped:
                    self._new((swapped[place[0]], place[1]), number)
                else:
                    self.names[place] = number

    def _new(self, place: Place, parent: int | None) -> int:
        number = self.names[place] = len(self.all)
        self.all.append(_Numbered(parent, self.at))
        if place in self.watched:
            self.held.setdefault(place, set()).add(number)
        return number


def aof_entries(source: str, stream: str, first: int, last: int, db: int) -> Iterator[Entry]:
    """Yield all entries that a stream ever had with ids from ``first`` to ``last``, both inclusive, in ID order.

    These are the entries added under the name, and the entries of the streams that it was renamed, copied, moved or
    restored from, up to that moment. Entries that were deleted later are included. An id that was used twice is
    returned once.

    Raises LedgerError: the files cannot be read.
    """
    parts = read_folder(source)
    wanted = db, spell_name(key_of(stream))
    streams = _Streams(frozenset({wanted}))
    for _ in _additions(parts, streams):
        pass
    limits = _limits(streams, wanted)
    walks = [
        _entries(parts, {number: limits[number] for number in run}) for run in _runs(streams.all, limits)
    ]
    before = -1
    for entry in heapq.merge(*walks, key=attrgetter("stream_id")):
        if first <= entry.stream_id <= last and entry.stream_id != before:
            before = entry.stream_id
            yield entry


def find_contents(
    source: str, wanted: Collection[tuple[int, str, str]]
) -> dict[tuple[int, str, str], list[bytes]]:
    """Return the fields and values of some entries, in one walk over the files.

    Entries that the files do not hold are left out. If streams of one name used an id twice, the later entry counts.

    Raises LedgerError: the files cannot be read.

    Args:
        source: the append-only folder.
        wanted: (database, stream, id) of each entry; names are in the ledger's spelling.
    """
    streams = _Streams(frozenset((db, stream) for db, stream, _ in wanted))
    numbers = {ids.parse(entry_id) for _, _, entry_id in wanted}
    found: dict[tuple[int, int], tuple[int, list[bytes] | bytes]] = {}
    for number, stream_id, fields in _additions(read_folder(source), streams):
        if stream_id in numbers:
            found[number, stream_id] = streams.at, fields
    limits = {place: _limits(streams, place) for place in streams.watched}
    contents = {}
    for db, stream, entry_id in wanted:
        stream_id = ids.parse(entry_id)
        known = [
            added
            for number, limit in limits[db, stream].items()
            if (added := found.get((number, stream_id))) is not None and added[0] <= limit
        ]
        if known:
            fields = max(known, key=itemgetter(0))[1]
            contents[db, stream, entry_id] = _fields(fields) if isinstance(fields, bytes) else fields
    return contents


def _limits(streams: _Streams, wanted: Place) -> dict[int, float]:
    """Return the streams whose entries belong to a name, each with the command up to which they do."""
    limits: dict[int, float] = dict.fromkeys(streams.held.get(wanted, ()), inf)
    waiting = list(limits)
    while waiting:
        numbered = streams.all[waiting.pop()]
        if numbered.parent is not None and limits.get(numbered.parent, -1) < numbered.since:
            limits[numbered.parent] = numbered.since
            waiting.append(numbered.parent)
    return limits


def _runs(streams: list[_Numbered], wanted: Iterable[int]) -> list[list[int]]:
    """Return groups of streams whose entries one walk yields in ID order."""
    runs: list[list[int]] = []
    for number in sorted(wanted, key=lambda number: streams[number].first_at):
        numbered = streams[number]
        if numbered.last_id < 0:
            continue
        for run in runs:
            if streams[run[-1]].is_before(numbered):
                run.append(number)
                break
        else:
            runs.append([number])
    return runs


def _entries(parts: list[Part], limits: dict[int, float]) -> Iterator[Entry]:
    """Yield the entries of some streams, each up to a command."""
    streams = _Streams()
    for number, stream_id, fields in _additions(parts, streams):
        if streams.at <= limits.get(number, -1):
            yield Entry(stream_id, _fields(fields) if isinstance(fields, bytes) else fields)


def _additions(parts: list[Part], streams: _Streams) -> Iterator[tuple[int, int, list[bytes] | bytes]]:
    """Walk over the files; yield the number, id and fields of every entry added to any stream."""
    for part in parts:
        with open_path(part.path) as file:
            if part.is_base and part.is_whole():
                yield from _in_base(file, streams)
            walk = Walk(START)
            for segment in walk.segments(file.read):
                for words in segment.commands:
                    yield from streams.take(words)


def _in_base(file: Any, streams: _Streams) -> Iterator[tuple[int, int, bytes]]:
    """Yield all entries of an RDB base and consume its bytes; yield none if the file does not begin with RDB."""
    from ...storage.rdb import ByteSource, is_rdb

    source = ByteSource(file.read)
    if not is_rdb(source):
        file.seek(0)
        return
    for db, key, stream in base_streams(source):
        yield from streams.found(db, key, stream)
    file.seek(source.position)


def _fields(payload: bytes) -> list[bytes]:
    import hiredis

    reader = hiredis.Reader()
    reader.feed(payload)
    found: list[bytes] = reader.gets()
    return found
