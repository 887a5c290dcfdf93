"""The files that rewrites have replaced: group them, and choose the ones to remove.

Kept files are history files of the manifest (type h). Readers of the whole history use them; servers do not load
them, and redis-server removes them when it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .manifest import FileInfo


@dataclass(slots=True, eq=False, repr=False)
class Generation:
    """A base and the incr files that continue it; together they hold all commands up to the next base."""

    base: FileInfo | None
    incr: list[FileInfo]

    @property
    def files(self) -> list[FileInfo]:
        """All files of the generation, oldest first."""
        return [*([self.base] if self.base else []), *self.incr]


def is_incr(info: FileInfo) -> bool:
    """Return True if a history file was an incr file; its type (h) no longer shows that."""
    return info.name.endswith(".incr.aof")


def generations(history: Sequence[FileInfo]) -> list[Generation]:
    """Return history files in groups, oldest first: each base with the incr files that continue it.

    Rillet lists each base before its incr files, oldest first. Redis (aof-disable-auto-gc) inserts newly
    replaced files at the front, with incr files before their base. One manifest can contain both orders.
    """
    found: list[Generation] = []
    leading: list[FileInfo] = []  # incr files whose base follows them
    for info in history:
        if not is_incr(info):
            found.append(Generation(info, leading))
            leading = []
        elif leading or not found or (found[-1].incr and found[-1].incr[-1].seq > info.seq):
            leading.append(info)
        else:
            found[-1].incr.append(info)
    if leading:
        found.append(Generation(None, leading))
    return sorted(found, key=lambda each: each.incr[0].seq if each.incr else 0)


def outdated(
    directory: Path, history: Sequence[FileInfo], seconds: int, limit: int, now_ms: int
) -> list[FileInfo]:
    """Return the files to remove: whole generations, oldest first, so that the remaining history starts with a base.

    Args:
        directory: the folder of the files; missing files count as removed.
        seconds: remove a generation whose newest record is older than this; 0: remove all.
        limit: maximum bytes of all history; 0: no limit.
        now_ms: Unix milliseconds.
    """
    if not seconds:
        return list(history)
    kept = generations(history)
    gone: list[FileInfo] = []
    stats = {info.name: _stat(directory / info.name) for info in history}
    total = sum(size for size, _ in stats.values())
    while kept:
        files = kept[0].files
        newest = max(changed_ms for _, changed_ms in (stats[info.name] for info in files))
        if newest > now_ms - seconds * 1000 and not (limit and total > limit):
            break
        total -= sum(stats[info.name][0] for info in files)
        gone += files
        del kept[0]
    return gone


def _stat(path: Path) -> tuple[int, int]:
    """Return size and time of the last write (ms); zeros for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns // 1_000_000
