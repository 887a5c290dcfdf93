"""The jobs under a real Spark: into Parquet and lakes, each row once, and back again."""

import json
from collections import Counter
from functools import partial

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from support.spark.queries import forget_last_commit

import rillet.testing
from rillet.pipeline.cli.main import main
from rillet.pipeline.jobs.lake_tables import iceberg_table, write_delta, write_iceberg
from rillet.pipeline.ledger.files.plan import read_ledger
from rillet.pipeline.redis import ids


def add(redis, stream, numbers, ms=0):
    redis.pipeline([("XADD", stream, f"{ms + n}-0", "n", n, "word", f"w{n}") for n in numbers])


def ingest(redis, folder, *words):
    return main(["ingest", "--out", str(folder), "--port", redis.options["port"], *words])


def rows(folder):
    found = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return sorted(found.to_pylist(), key=lambda row: row["id_key"])


def test_streams_become_parquet_once_and_streams_again(spark, redis, stream, tmp_path, capsys):
    folder = tmp_path / "lake"
    day = 86_400_000
    add(redis, stream, range(1, 301), ms=day)
    assert ingest(redis, folder, "--streams", stream, "--option", "maxRowsPerTrigger=100") == 0
    forget_last_commit(folder / "_checkpoint")
    add(redis, stream, range(301, 401), ms=2 * day)
    assert ingest(redis, folder, "--streams", stream) == 0
    assert sorted({str(row["day"]) for row in rows(folder)}) == ["1970-01-02", "1970-01-03"]
    add(redis, stream, range(401, 411), ms=2 * day)
    assert ingest(redis, folder, "--streams", stream) == 0
    found = rows(folder)
    assert [row["id"] for row in found] == [
        entry_id.decode() for entry_id, _ in redis.call("XRANGE", stream, "-", "+")
    ]
    assert spark.read.parquet(str(folder)).count() == 410
    capsys.readouterr()
    copy = f"{stream}-copy"
    assert (
        main(["replay", str(folder), "--stream", stream, "--to", copy, "--port", redis.options["port"]]) == 0
    )
    assert capsys.readouterr().out == f"410 entries went into {copy}\n"
    assert redis.call("XRANGE", copy, "-", "+") == redis.call("XRANGE", stream, "-", "+")
    redis.call("DEL", copy)


def test_entries_become_typed_columns(spark, redis, stream, tmp_path):
    add(redis, stream, range(1, 4))
    assert (
        ingest(redis, tmp_path / "out", "--streams", stream, "--schema", "id STRING, n BIGINT, word STRING")
        == 0
    )
    found = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert sorted((row["id"], row["n"], row["word"]) for row in found) == [
        ("1-0", 1, "w1"), ("2-0", 2, "w2"), ("3-0", 3, "w3"),
    ]  # fmt: skip


def test_data_without_its_checkpoint_is_not_written_to(redis, stream, tmp_path, spark, capsys):
    add(redis, stream, [1])
    (tmp_path / "something").touch()
    assert ingest(redis, tmp_path, "--streams", stream) == 1
    assert "is not empty and has no _checkpoint" in capsys.readouterr().err
    assert ingest(redis, tmp_path / "new", "--streams", stream, "--option", "fetchSize") == 1
    assert "--option takes NAME=VALUE, not 'fetchSize'" in capsys.readouterr().err


def test_a_job_that_was_killed_in_its_first_moment_begins_again(spark, redis, stream, tmp_path):
    add(redis, stream, range(1, 4))
    offsets = tmp_path / "out" / "_checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.1b69906d-7553-4e5c-bac1-8752698a158b.tmp").write_text("v1\n{")
    assert ingest(redis, tmp_path / "out", "--streams", stream) == 0
    assert [row["id"] for row in rows(tmp_path / "out")] == ["1-0", "2-0", "3-0"]


def test_the_ledger_becomes_parquet_as_it_grows(spark, tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    flags = {"appendonly": True, "dir": str(folder), "aof_timestamp_enabled": "ms", "save": ""}
    with rillet.testing.Server(**flags) as server:
        client = server.client()
        client.xgroup_create("s", "g", "0", mkstream=True)
        for turn in range(2):
            for n in range(20):
                client.xadd("s", {"n": n})
            [(_, entries)] = client.xreadgroup("g", "bob", {"s": ">"})
            client.xack("s", "g", *(entry_id for entry_id, _ in entries[:15]))
            words = ["ledger", str(folder / "appendonlydir"), "--out", str(tmp_path / "out")]
            assert main(words) == 0
            if turn == 0:
                forget_last_commit(tmp_path / "out" / "_checkpoint")
    names = ("file_seq", "ordinal", "event", "entry_id", "consumer", "clock_ms")
    written = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    truth = [row for batch in read_ledger(str(folder / "appendonlydir")) for row in batch.to_pylist()]
    picked = Counter(tuple(row[name] for name in names) for row in written)
    assert picked == Counter(tuple(row[name] for name in names) for row in truth)
    assert Counter(row["event"] for row in written)["acked"] == 30


def table_of(kind, folder, name):
    if kind == "delta":
        return DeltaTable(str(folder / "delta")).to_pyarrow_table()
    with iceberg_table(folder, name) as table:
        return table.scan().to_arrow()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_lake_has_each_batch_once(kind, spark, redis, stream, tmp_path):
    folder = tmp_path / kind
    add(redis, stream, range(1, 51))
    assert ingest(redis, folder, "--streams", stream, "--format", kind) == 0
    forget_last_commit(folder / "_checkpoint")
    add(redis, stream, range(51, 61))
    assert ingest(redis, folder, "--streams", stream, "--format", kind) == 0
    if kind == "delta":
        query = json.loads((folder / "_checkpoint" / "metadata").read_text())["id"]
        assert DeltaTable(str(folder / "delta")).transaction_version(query) == 1
    found = table_of(kind, folder, "rillet.rows")
    assert sorted(ids.from_key(key) >> 64 for key in found["id_key"].to_pylist()) == list(range(1, 61))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_another_query_is_not_mistaken_for_one_that_was_there(form, spark, tmp_path):
    write = write_delta if form == "delta" else partial(write_iceberg, name="a.b")
    frame = spark.createDataFrame([(1, "x")], "n INT, word STRING")
    for query, number in (("a", 0), ("a", 0), ("b", 0), ("a", 1), ("b", 0), ("a", 0)):
        write(tmp_path, batch=frame, number=number, query=query)
    assert table_of(form, tmp_path, "a.b").num_rows == 3
