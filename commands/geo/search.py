"""Search the members of a sorted set within a circle or a box."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heappushpop
from itertools import islice
from math import inf
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError, shown
from ...storage.collections.geohash import MAX_STEP, Area, Cell, Place, decode
from ...storage.collections.sorted_set import SortedSet
from ...storage.keyspace import notifications as events
from ..keys.store_result import store_result
from ..runtime.arguments import Arguments, parse_double
from ..runtime.client import Client
from ..sorted_sets.ranges import sorted_set_of
from ..spec.command import handles
from . import specs
from .positions import coordinates, length, parse_place, parse_unit

_NO_MEMBER: Final = b"ERR could not decode requested zset member"
_AT_ONCE: Final = 256  # members
_FEW: Final = 32  # members of a cell to examine one by one
_WITH_FACTS: Final = {b"WITHDIST", b"WITHHASH", b"WITHCOORD"}


@dataclass(slots=True)
class _Search:
    """The parsed search."""

    source: SortedSet | None
    rounds: bool  # as in ``parse_double``
    center: Place | None = None
    width: float | None = None  # metres; the radius of a circle
    height: float | None = None
    unit: float = 1.0
    order: bytes = b""
    count: int = 0
    any: bool = False
    facts: frozenset[bytes] = frozenset()
    target: bytes | None = None
    stores_distances: bool = False

    # Reading words

    def take_place(self, longitude: bytes, latitude: bytes) -> None:
        """Search around a position."""
        self.center = parse_place(longitude, latitude, rounds=self.rounds)

    def take_member(self, member: bytes) -> None:
        """Search around a member; nothing is found if the sorted set is missing."""
        self.center = 0.0, 0.0
        if self.source is not None:
            score = self.source.scores.get(member)
            if score is None:
                raise ReplyError(_NO_MEMBER)
            self.center = decode(score)

    def take_radius(self, radius: bytes, unit: bytes) -> None:
        """Search in a circle."""
        amount = parse_double(radius, b"ERR need numeric radius", rounds=self.rounds)
        if amount < 0:
            raise ReplyError(b"ERR radius cannot be negative")
        self.unit = parse_unit(unit)
        self.width = amount * self.unit

    def take_box(self, width: bytes, height: bytes, unit: bytes) -> None:
        """Search in a box around the center."""
        across = parse_double(width, b"ERR need numeric width", rounds=self.rounds)
        along = parse_double(height, b"ERR need numeric height", rounds=self.rounds)
        if across < 0 or along < 0:
            raise ReplyError(b"ERR height or width cannot be negative")
        self.unit = parse_unit(unit)
        self.width, self.height = across * self.unit, along * self.unit

    def take_option(self, name: bytes, arguments: Arguments) -> bool:
        """Take one of the options that all commands have; return False for any other word."""
        if name in _WITH_FACTS:
            self.facts |= {name}
        elif name == b"ANY":
            self.any = True
        elif name in {b"ASC", b"DESC"}:
            self.order = name
        elif name == b"COUNT" and arguments:
            self.count = arguments.integer()
            if self.count <= 0:
                raise ReplyError(b"ERR COUNT must be > 0")
        else:
            return False
        return True

    def check(self, what: bytes) -> None:
        """Refuse options that exclude each other."""
        if self.target is not None and self.facts:
            raise ReplyError(b"ERR %b is not compatible with WITHDIST, WITHHASH and WITHCOORD options" % what)

    def check_count(self) -> None:
        """Check ANY and COUNT. A COUNT without ANY selects the nearest members."""
        if self.any and not self.count:
            raise ReplyError(b"ERR the ANY argument requires COUNT argument")
        if self.count and not self.order and not self.any:
            self.order = b"ASC"

    # Searching

    def find(self) -> list[tuple[float, bytes, float]]:
        """Return distance, member and score of each match, in the order of the reply."""
        source = self.source
        if source is None:
            return []
        assert self.center is not None
        assert self.width is not None
        area = Area(self.center, self.width, self.height)
        cells = [(cell, *_places(source, cell)) for cell in area.cells()]
        total = sum(stop - start for _, start, stop in cells)
        if self.order == b"ASC" and self.count and not self.any and total > _FEW + 8 * self.count:
            return _nearest(source, area, cells, self.count)
        enough = self.count if self.any else inf
        found: list[tuple[float, bytes, float]] = []
        for _, start, stop in cells:
            items = source.slice(start, stop)
            size = _FEW  # it grows: with ANY the first few may suffice
            while len(found) < enough and (some := list(islice(items, size))):
                found += area.matches(some)
                size = min(2 * size, _AT_ONCE)
        if self.any:
            del found[self.count :]
        if self.order:
            found.sort(key=lambda each: each[0], reverse=self.order == b"DESC")
        return found[: self.count] if self.count else found

    def reply(self, found: list[tuple[float, bytes, float]], client: Client) -> bytes:
        """Encode the members, each with the requested details."""
        if not self.facts:
            return replies.bulk_array([member for _, member, _ in found])
        items = []
        for distance, member, score in found:
            parts = [replies.bulk(member)]
            if b"WITHDIST" in self.facts:
                parts.append(length(distance, self.unit))
            if b"WITHHASH" in self.facts:
                parts.append(replies.integer(int(score)))
            if b"WITHCOORD" in self.facts:
                parts.append(coordinates(decode(score), client))
            items.append(replies.array(parts))
        return replies.array(items)

    def store(self, client: Client, args: list[bytes], event: bytes) -> bytes:
        """Replace the value at the target by the matches, or delete it if there are none."""
        name = self.target
        assert name is not None
        found = self.find()
        scores = {
            member: distance / self.unit if self.stores_distances else score
            for distance, member, score in found
        }
        return store_result(client, args, name, sorted_set_of(scores), events.ZSET, event, changes=len(found))


def _places(source: SortedSet, cell: Cell) -> tuple[int, int]:
    """Return the range of members in a cell."""
    first, stop = cell.hashes()
    return source.score_range(first, stop, after=False, before=True)


def _nearest(
    source: SortedSet, area: Area, cells: list[tuple[Cell, int, int]], count: int
) -> list[tuple[float, bytes, float]]:
    """Return the nearest ``count`` matches in the order of a sort by distance, without examining all of them.

    The ten nearest of 4,290 in a circle, of 100,000 members, take 0.6 ms, and 31 ms if all of them are examined.

    Take the cell that may be nearest. Examine its members if it has few, otherwise split it into quarters. Stop when no
    cell can have a nearer member than those found.
    """
    waiting = [
        (cell.distance_from(area.center), rank, start, stop, cell)
        for rank, (cell, start, stop) in enumerate(cells)
        if start < stop
    ]
    heapify(waiting)
    # The farthest match first, as negative numbers. Of equally distant ones, the first in the order of the cells counts.
    found: list[tuple[float, int, int, bytes, float]] = []
    while waiting:
        least, rank, start, stop, cell = heappop(waiting)
        if len(found) == count and least > -found[0][0]:
            break
        if stop - start > _FEW and cell.step < MAX_STEP:
            for quarter in cell.quarters():
                part = _places(source, quarter)
                if part[0] < part[1]:
                    heappush(waiting, (quarter.distance_from(area.center), rank, *part, quarter))
            continue
        for index, (distance, member, score) in enumerate(
            area.matches(list(source.slice(start, stop))), start
        ):
            put = heappush if len(found) < count else heappushpop
            put(found, (-distance, -rank, -index, member, score))
    return [(-distance, member, score) for distance, _, _, member, score in sorted(found, reverse=True)]


def _search(client: Client, args: list[bytes], *, stores: bool) -> _Search:
    """Parse the arguments of GEOSEARCH and GEOSEARCHSTORE."""
    first = 2 if stores else 1
    value, rounds = client.read_value(args[first], SortedSet), client.server.compat.rounds_scores
    search = _Search(value, rounds, target=args[1] if stores else None)
    from_member = from_place = False
    arguments = Arguments(args, first + 1)
    while arguments:
        name = arguments.option()
        left = arguments.remaining
        if search.take_option(name, arguments):
            continue
        if name == b"FROMMEMBER" and left >= 1 and not from_place:
            search.take_member(arguments.next())
            from_member = True
        elif name == b"FROMLONLAT" and left >= 2 and not from_member:
            search.take_place(arguments.next(), arguments.next())
            from_place = True
        elif name == b"BYRADIUS" and left >= 2 and search.height is None:
            search.take_radius(arguments.next(), arguments.next())
        elif name == b"BYBOX" and left >= 3 and (search.width is None or search.height is not None):
            search.take_box(arguments.next(), arguments.next(), arguments.next())
        elif name == b"STOREDIST" and stores:
            search.stores_distances = True
        else:
            raise ReplyError(SYNTAX)
    search.check(b"GEOSEARCHSTORE")
    if search.center is None:
        raise ReplyError(
            b"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %b" % shown(args[0])
        )
    if search.width is None:
        raise ReplyError(b"ERR exactly one of BYRADIUS and BYBOX can be specified for %b" % shown(args[0]))
    search.check_count()
    return search


@handles(specs.GEORADIUS, by_member=False, may_store=True)
@handles(specs.GEORADIUS_RO, by_member=False, may_store=False)
@handles(specs.GEORADIUSBYMEMBER, by_member=True, may_store=True)
@handles(specs.GEORADIUSBYMEMBER_RO, by_member=True, may_store=False)
def georadius(client: Client, args: list[bytes], *, by_member: bool, may_store: bool) -> bytes:
    """Search members within a radius around a position or member; reply with them, or with STORE with their number.

    The variants for replicas (_RO) have no STORE.
    """
    search = _Search(client.read_value(args[1], SortedSet), client.server.compat.rounds_scores)
    if by_member:
        search.take_member(args[2])
        first = 3
    else:
        search.take_place(args[2], args[3])
        first = 4
    if not by_member or search.source is not None:
        search.take_radius(args[first], args[first + 1])
    arguments = Arguments(args, first + 2)
    while arguments:
        name = arguments.option()
        if search.take_option(name, arguments):
            continue
        if name not in {b"STORE", b"STOREDIST"} or not may_store or not arguments:
            raise ReplyError(SYNTAX)
        search.target = arguments.next()
        search.stores_distances = name == b"STOREDIST"
    search.check(b"STORE option in GEORADIUS")
    search.check_count()
    if search.target is not None:
        return search.store(client, args, b"georadiusstore")
    return search.reply(search.find(), client)


@handles(specs.GEOSEARCH)
def geosearch(client: Client, args: list[bytes]) -> bytes:
    """Search members within a circle or a box; reply with them and the requested details."""
    search = _search(client, args, stores=False)
    return search.reply(search.find(), client)


@handles(specs.GEOSEARCHSTORE)
def geosearchstore(client: Client, args: list[bytes]) -> bytes:
    """Search members within a circle or a box, and store them; reply with their number.

    Their scores are their geohashes, or with STOREDIST their distances.
    """
    return _search(client, args, stores=True).store(client, args, b"geosearchstore")
