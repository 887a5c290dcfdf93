"""``rillet pipeline compact DIR``: many small Parquet files of ingest or ledger into few, without Spark.

Only batches that will not be tried again are touched. Of each day, what is written first lies hidden; then a note says
which folders it replaces, these go, and it takes their place. A run that dies is finished by the next one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Final

from ..folders import JobError, LocalFolder, local_folder
from .parquet_batches import committed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

_HIDDEN: Final = "_compacting"
_NOTE: Final = "note.json"
_BATCH: Final = re.compile(r"batch=(\d+)(?:-(\d+))?")
_ROWS: Final = 1 << 17  # of a row group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument(
        "folder", metavar="DIR", help="the --out of an ingest or ledger job; it may be running"
    )
    parser.add_argument(
        "--most-mb", type=int, default=512, help="of one file; bigger ones stay (default 512)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compact."""
    before, after = compact(local_folder(arguments.folder), arguments.most_mb << 20)
    sys.stdout.write(f"{before:,} files became {after:,}\n")
    return 0


def compact(folder: Path, most_bytes: int = 512 << 20) -> tuple[int, int]:
    """Join the files of each day, oldest batch first, up to a size.

    Args:
        folder: of a job.
        most_bytes: of one file; what is bigger already is left alone.

    Returns:
        How many files there were, and how many there are.

    Raises:
        JobError: the folder is not of a job.
    """
    if not (folder / "_checkpoint").is_dir():
        raise JobError(f"{folder} is not the folder of a job: it has no _checkpoint")
    finish(folder)
    last = committed(LocalFolder(folder))
    before = after = 0
    for day in [folder, *sorted(each for each in folder.glob("day=*") if each.is_dir())]:
        for run in _runs(day, last, most_bytes):
            files = [file for _, _, batch in run for file in _files(batch)]
            before += len(files)
            after += 1
            if len(files) > 1:
                _replace(folder, day, run, files)
    return before, after


def finish(folder: Path) -> None:
    """Bring to its end what a run that died had begun."""
    hidden = folder / _HIDDEN
    note = hidden / _NOTE
    if note.exists():
        plan = json.loads(note.read_text(encoding="utf-8"))
        for old in plan["old"]:
            shutil.rmtree(folder / old, ignore_errors=True)
        if (hidden / "new").exists():
            (hidden / "new").rename(folder / plan["new"])
        note.unlink()
    shutil.rmtree(hidden, ignore_errors=True)


def _runs(day: Path, last: int, most: int) -> Iterator[list[tuple[int, int, Path]]]:
    """Yield batches that follow each other and together are not too big."""
    run: list[tuple[int, int, Path]] = []
    size = 0
    for first, end, batch in sorted(_batches(day)):
        if end > last:
            break
        bytes_here = sum(file.stat().st_size for file in _files(batch))
        if run and size + bytes_here > most:
            yield run
            run, size = [], 0
        run.append((first, end, batch))
        size += bytes_here
    if run:
        yield run


def _batches(day: Path) -> Iterator[tuple[int, int, Path]]:
    for each in day.glob("batch=*"):
        if found := _BATCH.fullmatch(each.name):
            yield int(found[1]), int(found[2] or found[1]), each


def _files(batch: Path) -> list[Path]:
    return sorted(batch.glob("*.parquet"))


def _replace(folder: Path, day: Path, run: list[tuple[int, int, Path]], files: list[Path]) -> None:
    import pyarrow.parquet as pq

    hidden = folder / _HIDDEN
    (hidden / "new").mkdir(parents=True)
    schema = pq.read_schema(files[0])
    target = hidden / "new" / "part-00000.parquet"
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS):
                writer.write_batch(batch, row_group_size=_ROWS)
    with target.open("rb") as written:
        os.fsync(written.fileno())
    name = f"batch={run[0][0]:08d}-{run[-1][1]:08d}"
    plan = {
        "new": str((day / name).relative_to(folder)),
        "old": [str(each.relative_to(folder)) for _, _, each in run],
    }
    draft = hidden / "draft"
    draft.write_text(json.dumps(plan), encoding="utf-8")
    draft.rename(hidden / _NOTE)
    finish(folder)
