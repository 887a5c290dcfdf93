"""Draw random keys in constant time: candidates for eviction."""

from __future__ import annotations

import heapq
from random import choice
from typing import Final

from .database import Database

_TRIES: Final = 64  # draws from the heap of expiries before its outdated pairs are removed


def sample(db: Database, number: int, *, volatile: bool) -> list[bytes]:
    """Return random keys (expiring ones if ``volatile``).

    If there are at most ``number`` such keys, return each once; otherwise ``number`` of them, of which some may repeat.
    """
    many = db.expires if volatile else db.entries
    if len(many) <= number:
        return list(many)
    if volatile:
        return [_expiring_key(db) for _ in range(number)]
    order = db.order()
    return [order.random() for _ in range(number)]


def _expiring_key(db: Database) -> bytes:
    """Return a random key that expires; there must be one."""
    expires = db.expires
    for _ in range(_TRIES):
        when, key = choice(db.due)  # noqa: S311 - this need not be unpredictable
        if expires.get(key) == when:
            return key
    db.due = [(when, key) for key, when in expires.items()]
    heapq.heapify(db.due)
    return choice(db.due)[1]  # noqa: S311 - as above


def next_to_expire(db: Database) -> tuple[int, bytes] | None:
    """Return the key that expires first and its time (Unix milliseconds); None if none expires."""
    due, expires = db.due, db.expires
    while due and expires.get(due[0][1]) != due[0][0]:
        heapq.heappop(due)
    return due[0] if due else None
