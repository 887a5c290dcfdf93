"""WATCH: which keys are watched, and which of them changed since.

A database keeps a version of each watched key, and a watch the version with which it began: EXEC compares them. A
change of a key also lists its watches with their owners, each once until it is looked at: a client that asks before
each queued command whether EXEC can still succeed looks only at keys touched since the last look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .database import WatchedKey

if TYPE_CHECKING:
    from .database import Database


def watch_key(keys: list[WatchedKey], db: Database, key: bytes, touched: list[WatchedKey]) -> None:
    """Count the changes of a key from now on, until ``unwatch_keys`` of ``keys``; list the first one in ``touched``."""
    watchers = db.watched.setdefault(key, [0, 0, -1])
    watched = WatchedKey(db, key, watchers[1], db.is_due(key), touched)
    keys.append(watched)  # from here on it is forgotten with the others, whatever fails
    watchers[0] += 1
    await_change(watched)


def await_change(watched: WatchedKey) -> None:
    """Let the next change of the key list the watch in ``touched``."""
    watched.database.untouched.setdefault(watched.key, set()).add(watched)


def unwatch_keys(keys: list[WatchedKey]) -> None:
    """Forget keys that ``watch_key`` listed, and empty their list.

    After an error in between (no memory) a second call goes on: no key is forgotten twice.
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
    """Whether a watched key was changed; removal of an already expired key is no change."""
    _, version, brought = watched.database.watched[watched.key]
    if brought_past_its_time(watched) and brought == watched.version:
        return version - brought > 1  # for the client the key was missing and still is
    changes = version - watched.version
    # A key that had expired when it was watched did not exist for the client: its removal is no change.
    return changes > (1 if watched.was_due else 0)


def brought_past_its_time(watched: WatchedKey) -> bool:
    """Whether SWAPDB put a key that was past its time where the client watches a missing one."""
    return watched.database.watched[watched.key][2] >= watched.version
