"""WATCH: which keys are watched, and which of them have changed. EXEC judges those that have expired by itself.

A database keeps a version of each watched key, and a watch keeps the version at its start: EXEC compares them. A change
of a key also adds its watches to their owners' lists, each once until the owner examines it. So a client that asks
before each queued command whether EXEC can still succeed examines only keys touched since the last time.
"""

from __future__ import annotations

from .database import Database, WatchedKey


def watch_key(keys: list[WatchedKey], db: Database, key: bytes, touched: list[WatchedKey]) -> None:
    """WATCH a key for a client, until ``unwatch_keys``.

    Args:
        keys: the client's watches; the new one is appended.
        key: it need not exist.
        touched: the client's list that receives the watch at the next change of the key.
    """
    watchers = db.watched.setdefault(key, [0, 0, -1])
    watched = WatchedKey(db, key, watchers[1], db.is_due(key), touched)
    keys.append(watched)  # from here on ``unwatch_keys`` forgets it, even after an error
    watchers[0] += 1
    await_change(watched)


def await_change(watched: WatchedKey) -> None:
    """Let the next change of the key add the watch to its client's ``touched`` list, once."""
    watched.database.untouched.setdefault(watched.key, set()).add(watched)


def unwatch_keys(keys: list[WatchedKey]) -> None:
    """End the watches that ``watch_key`` added, and empty their list.

    If an error interrupts it (no memory), a second call continues: no watch is ended twice.
    """
    while keys:
        watched = keys.pop()
        db, key = watched.database, watched.key
        watchers = db.watched[key]
        watchers[0] -= 1
        if not watchers[0]:
            del db.watched[key]
        untouched = db.untouched.get(key)
        if untouched is not None:
            untouched.discard(watched)
            if not untouched:
                del db.untouched[key]


def was_modified(watched: WatchedKey) -> bool:
    """Return True if a watched key was changed, so that EXEC fails; the removal of an already expired key is no change."""
    _, version, brought = watched.database.watched[watched.key]
    if brought_past_its_time(watched) and brought == watched.version:
        return version - brought > 1  # for the client the key was missing and still is
    changes = version - watched.version
    # A key that had expired when the watch began did not exist for the client: its removal is no change.
    return changes > (1 if watched.was_due else 0)


def brought_past_its_time(watched: WatchedKey) -> bool:
    """Return True if SWAPDB has replaced a watched key by an already expired key since WATCH."""
    return watched.database.watched[watched.key][2] >= watched.version
