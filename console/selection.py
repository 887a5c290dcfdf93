"""Select pending entries of a group: a filter, for the table of a page and for actions on all matching entries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .connection import Command, command
from .model import PendingEntry
from .pending_maxima import PAGE
from .values import Values

PENDING_SORTS: Final = ("idle", "deliveries", "id", "consumer")
UNOWNED: Final = "-"  # as a consumer: entries that XNACK released and nobody owns
NAMES: Final = ("by", "idle_over", "tries", "first", "last")  # names of the fields of the filter
_UNITS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME: Final = re.compile(r"(\d{1,15})\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter over a group's PEL."""

    key: bytes
    group: bytes
    consumer: bytes | None = None  # the owner; None: any; empty: no owner
    idle: int = 0  # minimum milliseconds; ``deliveries``: minimum delivery count
    deliveries: int = 0
    start: str = "-"  # the smallest ID; ``end``: the greatest; both inclusive
    end: str = "+"

    def matches(self, entry: PendingEntry) -> bool:
        """Return True if an entry matches in consumer, idle time and deliveries; the ID is not considered."""
        return (
            (not self.idle or entry.idle >= self.idle)
            and entry.deliveries >= self.deliveries
            and (self.consumer is None or entry.consumer == self.consumer)
        )

    def page(self, start: str) -> Command:
        """Return the XPENDING that reads a page of candidates, from the ID ``start`` on (inclusive)."""
        words = command("XPENDING", self.key, self.group, start, self.end, PAGE)
        return (*words, self.consumer) if self.consumer else words


def selection(values: Values) -> Selection:
    """Parse the typed filter. Raises ValueError: a field cannot be parsed."""
    by = values.text("by")
    return Selection(
        values.word("key"),
        values.word("group"),
        None if not by else b"" if by == UNOWNED else values.word("by"),
        milliseconds(values.text("idle_over")),
        values.number("tries", 0),
        _id(values.text("first"), "-"),
        _id(values.text("last"), "+"),
    )


def milliseconds(text: str) -> int:
    """Parse a duration to milliseconds: a number of these, or with a unit: 90s, 5min, 2h; "" is 0. Raises ValueError."""
    found = _TIME.fullmatch(text.lower())
    if not text:
        return 0
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text} is not a time: write 1500, 90s, 5min or 2h")
    return int(found[1]) * _UNITS[found[2]]


def _id(text: str, default: str) -> str:
    if text and not re.fullmatch(r"\d{1,20}(-\d{1,20})?", text, re.ASCII):
        raise ValueError(f"{text} is not an ID: an ID is milliseconds-sequence")
    return text or default


def pair(entry_id: str) -> tuple[int, int]:
    """Return an ID as (milliseconds, sequence number), for comparisons."""
    time, _, sequence = entry_id.partition("-")
    return int(time), int(sequence or 0)


def within(entries: Iterable[PendingEntry], chosen: Selection) -> list[PendingEntry]:
    """Return the entries that match the whole filter, including the ID."""
    low = (0, 0) if chosen.start == "-" else pair(chosen.start)
    high = None if chosen.end == "+" else pair(chosen.end)
    if high is not None and "-" not in chosen.end:
        high = (high[0], (1 << 64) - 1)
    by_id = chosen.start != "-" or high is not None
    return [
        entry
        for entry in entries
        if chosen.matches(entry)
        and (not by_id or (low <= pair(entry.id) and (high is None or pair(entry.id) <= high)))
    ]


def ordered(entries: list[PendingEntry], sort: str) -> list[PendingEntry]:
    """Return entries sorted by ``sort``: deliveries, consumer, id, or else idle time; the worst first, except by ID."""
    if sort == "deliveries":
        return sorted(entries, key=lambda entry: (-entry.deliveries, -entry.idle))
    if sort == "consumer":
        return sorted(entries, key=lambda entry: (entry.consumer, -entry.idle))
    return entries if sort == "id" else sorted(entries, key=lambda entry: -entry.idle)
