"""Jobs keep data and checkpoint on a file system that only Spark reaches: here Hadoop's viewfs, which is mounted nowhere."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
from support.spark.queries import forget_last_commit

from rillet.pipeline.cli.main import main
from rillet.pipeline.folders import JobError, LocalFolder, SparkFolder, folder_of
from rillet.pipeline.jobs.parquet_batches import begun, committed

numbers = itertools.count()


@pytest.fixture
def elsewhere(spark, tmp_path, monkeypatch):
    """The address of a folder, and what is behind it; the working folder holds nothing."""
    (tmp_path / "behind").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    name = f"lake{next(numbers)}"
    link = f"fs.viewfs.mounttable.{name}.link./data"
    spark.conf.set(link, f"file://{tmp_path}/behind")
    yield f"viewfs://{name}/data/orders", tmp_path / "behind" / "orders"
    spark.conf.unset(link)
    assert list(Path.cwd().iterdir()) == []


def add(redis, stream, numbers):
    redis.pipeline([("XADD", stream, f"{86_400_000 + n}-0", "n", n) for n in numbers])


def ingest(redis, stream, out, *words):
    return main(["ingest", "--streams", stream, "--out", out, "--port", redis.options["port"], *words])


def read(spark, address):
    return sorted(row.id for row in spark.read.parquet(address).select("id").collect())


def test_each_entry_is_there_once_after_a_driver_died_between_data_and_commit(
    spark, redis, stream, elsewhere, capsys
):
    address, behind = elsewhere
    add(redis, stream, range(1, 31))
    assert ingest(redis, stream, address, "--option", "maxRowsPerTrigger=10") == 0
    assert f"{address} is up to date: 3 new batches" in capsys.readouterr().err
    folder = folder_of(address, spark)
    assert (begun(folder), committed(folder)) == (2, 2)
    forget_last_commit(behind / "_checkpoint")
    assert committed(folder) == 1
    add(redis, stream, range(31, 36))
    assert ingest(redis, stream, address) == 0
    assert read(spark, address) == [f"{86_400_000 + n}-0" for n in range(1, 36)]
    assert "day=1970-01-02" in folder.names()


def test_the_last_batch_of_a_group_is_acknowledged(spark, redis, stream, elsewhere):
    add(redis, stream, range(1, 6))
    group = ("--option", "mode=group", "--option", "group=g")
    assert ingest(redis, stream, elsewhere[0], *group) == 0
    assert redis.call("XPENDING", stream, "g")[0] == 0
    add(redis, stream, range(6, 8))
    assert ingest(redis, stream, elsewhere[0], *group) == 0
    assert redis.call("XPENDING", stream, "g")[0] == 0
    assert Counter(read(spark, elsewhere[0])) == Counter(f"{86_400_000 + n}-0" for n in range(1, 8))


def test_tables_that_this_process_writes_are_refused(spark, redis, stream, elsewhere, capsys):
    add(redis, stream, [1])
    assert ingest(redis, stream, elsewhere[0], "--format", "delta") == 1
    assert (
        f"--format delta is written by this process and not by Spark: {elsewhere[0]}"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("address", "why"),
    [("s3a://bucket/lake", "S3AFileSystem not found"), ("nothing://host/lake", 'No FileSystem for scheme "nothing"')],
)  # fmt: skip
def test_a_file_system_that_spark_does_not_have_is_refused_before_a_query_starts(
    address, why, spark, redis, stream, capsys
):
    assert ingest(redis, stream, address) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        f"rillet pipeline ingest: [REDIS_STREAMS.JOB_REFUSED] Spark does not reach {address}: "
    )
    assert why in err
    assert "Traceback" not in err


def test_a_path_without_a_scheme_is_where_spark_looks_for_it(spark, elsewhere):
    place = folder_of("/data/orders", spark)
    assert isinstance(place, LocalFolder)
    spark.conf.set("fs.defaultFS", elsewhere[0].removesuffix("/data/orders"))
    try:
        place = folder_of("/data/orders", spark)
        assert isinstance(place, SparkFolder)
        assert str(place) == elsewhere[0]
        local = folder_of("file:///data/100%2525/a%20b", spark)
        assert isinstance(local, LocalFolder)
        assert (
            local.path("c") == "file:/data/100%25/a b/c"
        )  # Spark would look for it elsewhere without a scheme
    finally:
        spark.conf.unset("fs.defaultFS")


def test_a_local_folder_of_any_name_is_where_it_was_asked_for(spark, redis, stream, tmp_path):
    folder = tmp_path / "100% #1 a b"
    add(redis, stream, [1, 2])
    for _ in range(2):
        assert ingest(redis, stream, str(folder), "--option", "mode=group", "--option", "group=g") == 0
    assert redis.call("XPENDING", stream, "g")[0] == 0
    assert (folder / "_checkpoint" / "metadata").exists()
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]
    assert len(list(folder.glob("day=*/batch=*/*.parquet"))) == 1


def test_files_elsewhere_say_what_they_hold_or_why_not(spark, elsewhere):
    address, behind = elsewhere
    folder = folder_of(address, spark)
    assert folder.names() == []
    folder.make()
    folder.make()
    (behind / "a").write_text("é\n", encoding="utf-8")
    assert folder.names() == ["a"]
    assert folder.text("a") == "é\n"
    with pytest.raises(OSError, match=r"orders/b: java.io.FileNotFoundException"):
        folder.text("b")


def test_without_a_jvm_there_is_only_this_machine(tmp_path):
    assert isinstance(folder_of(f"file://{tmp_path}", None), LocalFolder)
    with pytest.raises(JobError, match=r"s3a://bucket/lake is not on this machine, and there is no JVM"):
        folder_of("s3a://bucket/lake", None)
