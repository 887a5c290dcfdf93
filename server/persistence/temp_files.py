"""Remove temporary dump files of servers that were killed."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Final

from ...storage import system

if TYPE_CHECKING:
    from pathlib import Path

# Names of snapshots, of replication/snapshot_sender and (if an open file keeps its name) of replication/master_link.
_NAME: Final = re.compile(r"temp-(?:repl-|sync-)?([1-9][0-9]{0,8})-\w{8}(?:-[0-9]+)?\.rdb", re.ASCII)


def remove_orphans(folder: Path, *, owns_process: bool) -> list[str]:
    """Remove the temporary dump files of servers that no longer run from a folder; return the names of the files.

    ``owns_process``: no other server lives in this process. Files with its process ID then come from an earlier
    process with the same ID, as in a container, where each server is process 1.
    """
    removed = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            match = _NAME.fullmatch(path.name)
            if match and _is_gone(int(match[1]), owns_process=owns_process):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed.append(path.name)
    return removed


def _is_gone(pid: int, *, owns_process: bool) -> bool:
    if pid == os.getpid():
        return owns_process
    return system.HERE.has_ended(pid)
