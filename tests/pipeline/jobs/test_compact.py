"""Small files become few, whatever happens in between, and nothing else is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.folders import JobError
from rillet.pipeline.jobs import compact as module
from rillet.pipeline.jobs.compact import compact, finish


@pytest.fixture
def folder(tmp_path):
    """Seven batches of two files on two days; the last one is not committed."""
    number = 0
    for batch in range(7):
        for part in range(2):
            path = tmp_path / f"day={batch // 4}" / f"batch={batch:08d}"
            path.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"n": [number, number + 1]}), path / f"part-{part}.parquet")
            number += 2
    (tmp_path / "_checkpoint" / "commits").mkdir(parents=True)
    for batch in range(6):
        (tmp_path / "_checkpoint" / "commits" / str(batch)).touch()
        (tmp_path / "_checkpoint" / "commits" / f".{batch}.crc").touch()
    return tmp_path


def rows(folder):
    return ds.dataset(folder, format="parquet").to_table()["n"].to_pylist()


def batches(folder):
    return sorted(str(each.relative_to(folder)) for each in folder.glob("day=*/batch=*"))


def test_the_committed_batches_of_a_day_become_one_file(folder, capsys):
    assert main(["compact", str(folder)]) == 0
    assert capsys.readouterr().out == "12 files became 2\n"
    assert batches(folder) == [
        "day=0/batch=00000000-00000003", "day=1/batch=00000004-00000005", "day=1/batch=00000006",
    ]  # fmt: skip
    assert rows(folder) == list(range(28))
    assert compact(folder) == (2, 2)


def test_what_came_since_joins_what_was_compacted(folder):
    compact(folder)
    (folder / "_checkpoint" / "commits" / "6").touch()
    assert compact(folder) == (4, 2)
    assert batches(folder)[1] == "day=1/batch=00000004-00000006"
    assert rows(folder) == list(range(28))


def test_files_that_are_big_enough_stay(folder):
    size = sum(each.stat().st_size for each in (folder / "day=0" / "batch=00000000").iterdir())
    assert compact(folder, 2 * size) == (12, 3)
    assert batches(folder)[:2] == ["day=0/batch=00000000-00000001", "day=0/batch=00000002-00000003"]


def test_a_run_that_dies_anywhere_is_finished_by_the_next(folder, monkeypatch):
    """Every file operation is the last one once; the folder is looked at after the next run."""
    calls = []

    class Died(BaseException):
        pass

    def dying(operation):
        def called(*words, **options):
            calls.append(operation.__name__)
            if len(calls) == deadly:
                raise Died
            return operation(*words, **options)

        return called

    started = folder / "copy"
    for deadly in range(1, 60):
        shutil.copytree(folder, started, ignore=shutil.ignore_patterns("copy"))
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(module.shutil, "rmtree", dying(shutil.rmtree))
            for name in ("rename", "unlink", "mkdir", "write_text"):
                patched.setattr(Path, name, dying(getattr(Path, name)))
            patched.setattr(module.os, "fsync", dying(module.os.fsync))
            try:
                compact(started)
            except Died:
                survived = False
            else:
                survived = True
            last = deadly
        finish(started)
        assert rows(started) == list(range(28)), f"died at {calls}"
        compact(started)
        assert rows(started) == list(range(28))
        assert len(batches(started)) == 3
        shutil.rmtree(started)
        if survived:
            break
    assert survived
    assert last > 12


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(JobError, match="it has no _checkpoint"):
        compact(tmp_path)
