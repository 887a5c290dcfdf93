"""Positions in sorted sets: add, locate, measure. Their scores are geohashes of 52 bits."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections import geohash
from ...storage.collections.geohash import Place
from ...storage.collections.sorted_set import SortedSet
from ..runtime.arguments import parse_double
from ..runtime.client import Client
from ..sorted_sets.members import zadd
from ..spec.command import handles
from . import specs

_METRES: Final = {b"M": 1.0, b"KM": 1000.0, b"FT": 0.3048, b"MI": 1609.34}
_UNITS: Final = b"ERR unsupported unit provided. please use M, KM, FT, MI"
_ADD_OPTIONS: Final = frozenset((b"NX", b"XX", b"CH"))


def parse_unit(word: bytes) -> float:
    """Return the number of metres in a unit of length (m, km, ft, mi); raise ReplyError for any other word."""
    metres = _METRES.get(word.upper())
    if metres is None:
        raise ReplyError(_UNITS)
    return metres


def parse_place(longitude: bytes, latitude: bytes, *, rounds: bool) -> Place:
    """Parse a longitude and a latitude in degrees; ``rounds`` as in ``parse_double``.

    Raises ReplyError: a word is not a number, or the position is outside the range of geohashes.
    """
    place = parse_double(longitude, rounds=rounds), parse_double(latitude, rounds=rounds)
    for value, (low, high) in zip(place, (geohash.LONGITUDES, geohash.LATITUDES), strict=True):
        if not low <= value <= high:
            raise ReplyError(b"ERR invalid longitude,latitude pair %f,%f" % place)
    return place


def coordinates(place: Place, client: Client) -> bytes:
    """Encode a position as a reply: an array of longitude and latitude."""
    return b"*2\r\n" + b"".join([_number(value, client) for value in place])


def _number(value: float, client: Client) -> bytes:
    """Encode a coordinate; before 8.0 with up to 17 digits after the point."""
    if client.server.compat.shortest_coordinates:
        return replies.double(value, client.resp)
    digits = (b"%.17f" % value).rstrip(b"0").rstrip(b".")
    return b",%b\r\n" % digits if client.resp == 3 else replies.bulk(digits)


def length(metres: float, unit: float) -> bytes:
    """Encode a distance in metres as a bulk string in a unit of so many metres, with four digits after the point."""
    return replies.bulk(b"%.4f" % (metres / unit))


@handles(specs.GEOADD)
def geoadd(client: Client, args: list[bytes]) -> bytes | None:
    """Add members at positions: run ZADD with their geohashes as scores, reply like it and propagate it."""
    first = 2
    while first < len(args) and args[first].upper() in _ADD_OPTIONS:
        first += 1
    options = {word.upper() for word in args[2:first]}
    if (len(args) - first) % 3 or options >= {b"NX", b"XX"}:
        raise ReplyError(SYNTAX)
    words = [b"zadd", *args[1:first]]  # the name in the propagated command
    rounds = client.server.compat.rounds_scores
    for at in range(first, len(args), 3):
        place = parse_place(args[at], args[at + 1], rounds=rounds)
        words += (b"%d" % geohash.encode(place), args[at + 2])
    return zadd(client, words)


@handles(specs.GEODIST)
def geodist(client: Client, args: list[bytes]) -> bytes:
    """Reply with the distance of two members in metres or the given unit; null if one is missing."""
    unit = 1.0
    if len(args) == 5:
        unit = parse_unit(args[4])
    elif len(args) > 5:
        raise ReplyError(SYNTAX)
    value = client.read_value(args[1], SortedSet)
    if value is None:
        return replies.null(client.resp)
    first, second = value.scores.get(args[2]), value.scores.get(args[3])
    if first is None or second is None:
        return replies.null(client.resp)
    return length(geohash.distance(geohash.decode(first), geohash.decode(second)), unit)


@handles(specs.GEOHASH)
def geohash_(client: Client, args: list[bytes]) -> bytes:
    """Reply with the geohash of each member, eleven letters; null for a missing one."""
    value = client.read_value(args[1], SortedSet)
    scores = {} if value is None else value.scores
    null = replies.null(client.resp)
    return replies.array(
        [
            null
            if (score := scores.get(member)) is None
            else replies.bulk(geohash.text(geohash.decode(score)))
            for member in args[2:]
        ]
    )


@handles(specs.GEOPOS)
def geopos(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[longitude, latitude]`` for each member, null for a missing one."""
    value = client.read_value(args[1], SortedSet)
    scores = {} if value is None else value.scores
    null = replies.null_array(client.resp)
    return replies.array(
        [
            null if (score := scores.get(member)) is None else coordinates(geohash.decode(score), client)
            for member in args[2:]
        ]
    )
