"""Geohashes: places as 52-bit numbers that are close for neighbouring places, and distances between places.

A place is a pair of longitude and latitude in degrees. A cell of step n is one of 2^n times 2^n equal parts of the
map; its number interleaves the bits of column and row. The arithmetic follows Redis operation by operation, because
clients see its last digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import acos, asin, atan2, cos, isfinite, nan, pi, sin, sqrt
from struct import pack, unpack
from typing import Final, TypeAlias

from bitarray import bitarray

Place: TypeAlias = tuple[float, float]

MAX_STEP: Final = 26
LONGITUDES: Final = (-180.0, 180.0)
LATITUDES: Final = (-85.05112878, 85.05112878)  # the bounds of the map's projection
_ALL_LATITUDES: Final = (-90.0, 90.0)
_EARTH_RADIUS: Final = 6372797.560856  # metres
_MERCATOR_MAX: Final = 20037726.37
_DEGREE: Final = pi / 180.0
_BLUR: Final = 2.0  # metres; distances near 0 and near half the globe are exact only to 0.3
_ALPHABET: Final = b"0123456789bcdefghjkmnpqrstuvwxyz"

# At the upper bound of latitudes the row is 2^MAX_STEP, one more than fits; so is the column at longitude 180.
_ROW_BITS: Final = (1 << MAX_STEP + 1) - 1


def _interleave(row: int, column: int) -> int:
    """Interleave the bits of the row (even positions) and the column (odd positions)."""
    # Reading binary digits in base 4 puts them two places apart: nine times as fast as a loop over the bits.
    return int(f"{row & _ROW_BITS:b}", 4) | int(f"{column & _ROW_BITS:b}", 4) << 1


def _part(value: float, bounds: tuple[float, float], step: int) -> int:
    low, high = bounds
    return int((value - low) / (high - low) * (1 << step))


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of the map: its row (from the south) and column (from the west) at a step."""

    row: int
    column: int
    step: int

    @classmethod
    def of(cls, place: Place, step: int) -> Cell:
        """Return the cell that contains a place."""
        return cls(_part(place[1], LATITUDES, step), _part(place[0], LONGITUDES, step), step)

    def beside(self, east: int, north: int) -> Cell:
        """Return the cell ``east`` columns and ``north`` rows away (1, 0 or -1); the map wraps around at its edges."""
        mask = (1 << self.step) - 1
        return Cell(
            self.row + north & mask if north else self.row,
            self.column + east & mask if east else self.column,
            self.step,
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the cell's west, south, east and north edges in degrees."""
        parts = 1 << self.step
        west, east = (
            LONGITUDES[0] + ((self.column + side) * 1.0 / parts) * (LONGITUDES[1] - LONGITUDES[0])
            for side in (0, 1)
        )
        south, north = (
            LATITUDES[0] + ((self.row + side) * 1.0 / parts) * (LATITUDES[1] - LATITUDES[0])
            for side in (0, 1)
        )
        return west, south, east, north

    def hashes(self) -> tuple[int, int]:
        """Return the smallest 52-bit geohash in the cell, and the first one after the cell."""
        bits = _interleave(self.row, self.column)
        shift = 2 * (MAX_STEP - self.step)
        return bits << shift, bits + 1 << shift

    def quarters(self) -> Iterator[Cell]:
        """Yield the four cells of the next step that make up this one, in the order of their numbers."""
        for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield Cell(2 * self.row + row, 2 * self.column + column, self.step + 1)

    def distance_from(self, place: Place) -> float:
        """Return a lower bound of the distance from a place to the cell in metres; it is a few metres too small at most."""
        west, south, east, north = self.bounds()
        west, east = (min(max(edge, LONGITUDES[0]), LONGITUDES[1]) * _DEGREE for edge in (west, east))
        south, north = (min(max(edge, LATITUDES[0]), LATITUDES[1]) * _DEGREE for edge in (south, north))
        longitude, latitude = place[0] * _DEGREE, place[1] * _DEGREE
        if west <= longitude <= east:
            angle = max(south - latitude, latitude - north, 0.0)  # the nearest point has the same longitude
        else:
            # The nearest point is in a corner, or on an edge that the great circle meets at a right angle.
            nearest = -1.0  # cosine of the angle
            for edge in (west, east):
                along, across = sin(latitude), cos(latitude) * cos(longitude - edge)
                best = atan2(along, across)
                for one in (south, north, min(max(best, south), north)):
                    nearest = max(nearest, along * sin(one) + across * cos(one))
            angle = acos(min(nearest, 1.0))
        return max(angle * _EARTH_RADIUS - _BLUR, 0.0)


def encode(place: Place) -> int:
    """Return the 52-bit geohash of a place, which must be on the map."""
    cell = Cell.of(place, MAX_STEP)
    return _interleave(cell.row, cell.column)


def _unsigned(score: float) -> int:
    """Convert a score to 64 bits as an x86 processor does: a score that does not fit becomes 2^63 or 0."""
    if score < -(1 << 63):
        return 1 << 63
    return int(score) & (1 << 64) - 1 if score < 1 << 64 else 0


def decode(score: float) -> Place:
    """Return the centre of the cell that a geohash of 52 bits, the score of a member, denotes."""
    return decode_all((score,))[0]


def decode_all(scores: Sequence[float]) -> list[Place]:
    """Return the centres of the cells of many 52-bit geohashes, like ``decode``.

    Separating the bits of all numbers at once is three times as fast as one by one.
    """
    count = len(scores)
    bits = bitarray(endian="big")
    bits.frombytes(pack(f">{count}Q", *map(_unsigned, scores)))
    rows, columns = (unpack(f">{count}I", bits[odd::2].tobytes()) for odd in (1, 0))
    west, east = LONGITUDES
    south, north = LATITUDES
    width, height, parts = east - west, north - south, 1 << MAX_STEP
    places = []
    for row, column in zip(rows, columns, strict=True):
        longitude = ((west + column / parts * width) + (west + (column + 1) / parts * width)) / 2
        latitude = ((south + row / parts * height) + (south + (row + 1) / parts * height)) / 2
        # Only scores that are not geohashes lie outside.
        if not (longitude <= east and latitude <= north):
            longitude, latitude = min(longitude, east), min(latitude, north)
        places.append((longitude, latitude))
    return places


def text(place: Place) -> bytes:
    """Return a place's standard geohash of eleven letters (GEOHASH); the last letter carries no information."""
    bits = _interleave(_part(place[1], _ALL_LATITUDES, MAX_STEP), _part(place[0], LONGITUDES, MAX_STEP))
    return bytes(_ALPHABET[bits >> 47 - 5 * at & 31] for at in range(10)) + b"0"


def distance(first: Place, second: Place) -> float:
    """Return the great-circle distance between two places in metres."""
    v = sin((second[0] * _DEGREE - first[0] * _DEGREE) / 2)
    if v == 0.0:
        return latitude_distance(first[1], second[1])
    first_latitude, second_latitude = first[1] * _DEGREE, second[1] * _DEGREE
    u = sin((second_latitude - first_latitude) / 2)
    a = u * u + cos(first_latitude) * cos(second_latitude) * v * v
    return 2.0 * _EARTH_RADIUS * asin(sqrt(a))


def latitude_distance(first: float, second: float) -> float:
    """Return the distance in metres between two latitudes, given in degrees."""
    return _EARTH_RADIUS * abs(second * _DEGREE - first * _DEGREE)


@dataclass(frozen=True, slots=True)
class Area:
    """An area of GEOSEARCH: a circle, or a box if ``height`` is given. All lengths are in metres."""

    center: Place  # the place in its middle
    width: float  # the width of the box, or the radius of the circle
    height: float | None = None  # the height of the box; None for a circle

    def distance_to(self, place: Place) -> float | None:
        """Return a place's distance from the center in metres; None if it is outside. The border is inside."""
        if self.height is None:
            far = distance(self.center, place)
            return far if far <= self.width else None
        if latitude_distance(place[1], self.center[1]) > self.height / 2:
            return None
        if distance(place, (self.center[0], place[1])) > self.width / 2:
            return None
        return distance(self.center, place)

    def matches(self, items: Sequence[tuple[float, bytes]]) -> list[tuple[float, bytes, float]]:
        """Return (distance in metres, member, score) of the (score, member) items inside, in their order."""
        found = []
        places = zip(items, decode_all([score for score, _ in items]), strict=True)
        if self.height is not None:
            for (score, member), place in places:
                far = self.distance_to(place)
                if far is not None:
                    found.append((far, member, score))
            return found
        # Inlined ``distance``, with the terms that depend only on the center computed once.
        radius = self.width
        longitude, latitude = self.center[0] * _DEGREE, self.center[1] * _DEGREE
        narrowing = cos(latitude)
        for (score, member), place in places:
            v = sin((place[0] * _DEGREE - longitude) / 2)
            other = place[1] * _DEGREE
            if v == 0.0:
                far = latitude_distance(self.center[1], place[1])
            else:
                u = sin((other - latitude) / 2)
                far = 2.0 * _EARTH_RADIUS * asin(sqrt(u * u + narrowing * cos(other) * v * v))
            if far <= radius:
                found.append((far, member, score))
        return found

    def cells(self) -> Iterator[Cell]:
        """Yield at most nine cells that cover the area, in the order in which Redis searches them."""
        west, south, east, north = self._bounds()
        step = self._step()
        cell = Cell.of(self.center, step)
        if step > 1 and self._is_too_fine(cell, west, south, east, north):
            step -= 1
            cell = Cell.of(self.center, step)
        own = cell.bounds()
        skips = (own[0] < west, own[1] < south, own[2] > east, own[3] > north) if step >= 2 else (False,) * 4
        before: Cell | None = None
        yield cell
        for x, y in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            if (x < 0 and skips[0]) or (y < 0 and skips[1]) or (x > 0 and skips[2]) or (y > 0 and skips[3]):
                continue
            other = cell.beside(x, y)
            # In a huge area opposite neighbours are the same cell; Redis skips only a repeat of the previous cell.
            if other != before and other.hashes() != (0, 0):
                yield other
            before = other

    def _bounds(self) -> tuple[float, float, float, float]:
        longitude, latitude = self.center
        width, height = (self.width, self.width) if self.height is None else (self.width / 2, self.height / 2)
        across = height / _EARTH_RADIUS / _DEGREE
        if isfinite(across):
            top = width / _EARTH_RADIUS / cos((latitude + across) * _DEGREE) / _DEGREE
            bottom = width / _EARTH_RADIUS / cos((latitude - across) * _DEGREE) / _DEGREE
        else:
            top = bottom = nan  # C's cosine of infinity is nan
        along = bottom if latitude < 0 else top
        return longitude - along, latitude - across, longitude + along, latitude + across

    def _step(self) -> int:
        """Return the finest step whose cells are not smaller than the area."""
        reach = self.width
        if self.height is not None:
            reach = sqrt((self.width / 2) * (self.width / 2) + (self.height / 2) * (self.height / 2))
        if reach == 0:
            return MAX_STEP
        step = 1
        while reach < _MERCATOR_MAX:
            reach *= 2
            step += 1
        step -= 2
        latitude = abs(self.center[1])
        if latitude > 66:
            step -= 2 if latitude > 80 else 1
        return min(max(step, 1), MAX_STEP)

    @staticmethod
    def _is_too_fine(cell: Cell, west: float, south: float, east: float, north: float) -> bool:
        """Return True if the area extends beyond the neighbours of a cell."""
        return (
            cell.beside(0, 1).bounds()[3] < north
            or cell.beside(0, -1).bounds()[1] > south
            or cell.beside(1, 0).bounds()[2] < east
            or cell.beside(-1, 0).bounds()[0] > west
        )
