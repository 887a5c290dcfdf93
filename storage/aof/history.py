"""The files that rewrites have replaced, as long as they are kept: what belongs together, and what is to go first.

Kept files are history files of the manifest (type h). Readers of the whole history use them; servers do not load
them, and redis-server removes them when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .manifest import FileInfo


@dataclass(slots=True)
class Generation:
    """A base, and the incr files that begin where it ends; together they lead to the next base."""

    base: FileInfo | None = None
    incr: list[FileInfo] = field(default_factory=list)

    @property
    def files(self) -> list[FileInfo]:
        """All of them, oldest first."""
        return [*([self.base] if self.base else []), *self.incr]


def is_incr(info: FileInfo) -> bool:
    """Whether a history file was an incr file; its type does not say so any more."""
    return info.name.endswith(".incr.aof")


def generations(history: Sequence[FileInfo]) -> list[Generation]:
    """Put history files together, oldest first.

    Rillet lists each base before its incr files, oldest first; Redis (aof-disable-auto-gc) puts what has just been
    replaced in front, incr files before their base. Both can follow each other in one manifest.
    """
    found: list[Generation] = []
    leading: list[FileInfo] = []  # incr files whose base stands behind them
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
    """Choose what is to be removed: whole generations, oldest first, so that what stays can be read from its base on.

    Args:
        directory: where the files are; those that are missing count as removed.
        history: the history files of the manifest.
        seconds: a generation goes when its newest record is older than this; 0: at once.
        limit: the bytes that all history may take; 0: any number.
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
    """Size, and when it was written last; zeros for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns // 1_000_000
