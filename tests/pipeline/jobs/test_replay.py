"""Entries of the past, out of Parquet and append-only files, into streams: all of them, in order, once."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers import start_server
from support.wire import encode_command

from rillet.pipeline.cli.main import main
from rillet.pipeline.folders import JobError
from rillet.pipeline.jobs import replay
from rillet.pipeline.jobs.entries import read_entries
from rillet.pipeline.ledger.entries import Entry
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection, ServerError
from rillet.pipeline.redis.options import Endpoint

PAIR = pa.struct([("name", pa.string()), ("value", pa.binary())])
KIND = pa.schema([("stream", pa.string()), ("id_key", pa.binary()), ("fields", pa.list_(PAIR))])


def write(path, numbers, stream="s"):
    """A file as ingest writes it: entries n-0 with two fields of the same name, in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"stream": stream, "id_key": ids.key(ids.join(n)), "fields": [{"name": "n", "value": b"%d" % n}] * 2}
        for n in numbers
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=KIND), path)


def entry(n):
    return Entry(ids.join(n), [b"n", b"%d" % n] * 2)


def everything(source, stream="s", first=0, last=ids.MAX_ID, **options):
    return list(read_entries(source, stream, first, last, **options))


def test_parquet_files_that_overlap_are_merged(tmp_path):
    write(tmp_path / "day=a" / "batch=0" / "1.parquet", [5, 1, 9])
    write(tmp_path / "day=a" / "batch=1" / "1.parquet", [2, 12, 7])
    write(tmp_path / "day=b" / "batch=2" / "1.parquet", [20, 30])
    write(tmp_path / "day=b" / "batch=2" / "2.parquet", [3], stream="other")
    (tmp_path / "_checkpoint").mkdir()
    (tmp_path / "_checkpoint" / "metadata").write_text("{}")
    assert everything(tmp_path) == [entry(n) for n in (1, 2, 5, 7, 9, 12, 20, 30)]
    some = everything(tmp_path, first=ids.join(5), last=ids.join(20))
    assert some == [entry(n) for n in (5, 7, 9, 12, 20)]


def test_other_parquet_is_refused(tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "x.parquet")
    with pytest.raises(JobError, match=r"no column fields, id_key, stream: only what ingest wrote"):
        everything(tmp_path)
    with pytest.raises(JobError, match="does not exist"):
        everything(tmp_path / "nowhere")


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("kind", ["rillet", "redis7"])
def test_append_only_files_give_what_was_ever_added(kind, preamble):
    keep = ("--aof-history-retention", "3600 1gb") if kind == "rillet" else ("--aof-disable-auto-gc", "yes")
    flags = (
        "--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes", *keep,
    )  # fmt: skip
    with start_server(kind, *flags) as server:
        with server.wire() as connection:
            for n in range(1, 40):
                connection.call(
                    "XADD", "s", "MAXLEN", "=", "5", f"{n}-0", "n", str(n), "n", "*1\r\n$3\r\nfoo\r\n"
                )
                if n == 20:
                    connection.call("BGREWRITEAOF")
                    while b"aof_rewrite_in_progress:1" in connection.call("INFO", "persistence").value:
                        pass
            connection.call("XADD", "t", "1-0", "a", "b")
            connection.call("SELECT", "3")
            connection.call("XADD", "s", "7-7", "in", "three")
        server.stop()
        folder = server.dir / "appendonlydir"
        found = everything(folder)
        assert [each.stream_id >> 64 for each in found] == list(range(1, 40))
        assert found[4].words == [b"n", b"5", b"n", b"*1\r\n$3\r\nfoo\r\n"]
        assert everything(folder, db=3) == [Entry(ids.join(7, 7), [b"in", b"three"])]
        assert [each.stream_id for each in everything(folder, first=ids.join(5), last=ids.join(6))] == [
            ids.join(5), ids.join(6),
        ]  # fmt: skip


def test_a_packed_base_is_read(tmp_path):
    """A base that was gzipped by hand, and no history: the entries that were there, then those that came."""
    with start_server("redis7", "--appendonly", "yes", folder=tmp_path) as server:
        with server.wire() as connection:
            connection.call("XADD", "s", "1-0", "n", "1")
            connection.call("BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in connection.call("INFO", "persistence").value:
                pass
            connection.call("XADD", "s", "2-0", "n", "2")
        server.stop()
        [base] = (tmp_path / "appendonlydir").glob("*.base.rdb")
        Path(f"{base}.gz").write_bytes(gzip.compress(base.read_bytes()))
        base.unlink()
        found = everything(tmp_path / "appendonlydir")
        assert found == [Entry(ids.join(1), [b"n", b"1"]), Entry(ids.join(2), [b"n", b"2"])]


@pytest.fixture(params=["rillet", "redis7"])
def connection(request, running):
    with Connection(Endpoint(port=running(request.param).port, retries=0)) as connection:
        connection.call("FLUSHALL")  # other tests have the same server
        yield connection
        connection.call("FLUSHALL")


def run(connection, *words):
    return main(["replay", *map(str, words), "--port", str(connection.endpoint.port)])


def test_a_replay_keeps_ids_and_goes_on_where_the_target_ends(connection, tmp_path, capsys):
    write(tmp_path / "a.parquet", range(1, 1200))
    assert run(connection, tmp_path, "--stream", "s", "--to", "t", "--from", "10-0", "--until", "1000") == 0
    assert capsys.readouterr().out == "990 entries went into t\n"
    assert run(connection, tmp_path, "--stream", "s", "--to", "t") == 0
    assert capsys.readouterr().out == "200 entries went into t; 999 were there already\n"
    found = connection.call("XRANGE", "t", "-", "+")
    assert [word for word, _ in found] == [b"%d-0" % n for n in range(10, 1200)]
    assert found[0][1] == [b"n", b"10", b"n", b"10"]


def test_a_replay_with_new_ids_sends_nothing_twice(connection, tmp_path, capsys):
    write(tmp_path / "a.parquet", range(1, 1200))
    again = [*read_entries(tmp_path, "s", 0, ids.MAX_ID)]
    name = replay._marker(b"t", tmp_path, "s", 0, ids.MAX_ID, 0)

    def dies():
        yield again[:500]
        yield [again[500], Entry(ids.join(501), [b"odd"])]  # XADD refuses it: the transaction is not run

    with pytest.raises(ServerError, match=r"EXECABORT|wrong number"):
        replay.send(connection, b"t", name, dies())
    assert connection.call("XLEN", "t") == 500
    assert run(connection, tmp_path, "--stream", "s", "--to", "t", "--ids", "new") == 0
    assert capsys.readouterr().out == "699 entries went into t; 500 were there already\n"
    assert [words[1] for _, words in connection.call("XRANGE", "t", "-", "+")] == [
        b"%d" % n for n in range(1, 1200)
    ]


def test_a_replay_of_another_database_is_another_replay(connection, tmp_path, capsys):
    aof = tmp_path / "appendonly.aof"
    aof.write_bytes(
        b"".join(encode_command(b"SELECT", db) + encode_command(b"XADD", b"s", b"1-0", b"db", db) for db in (b"0", b"1", b"2")),
    )  # fmt: skip
    for db in (0, 1, 2, 1):
        assert run(connection, aof, "--stream", "s", "--to", "t", "--ids", "new", "--source-db", db) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 entries went into t; 1 were there already"
    assert [words for _, words in connection.call("XRANGE", "t", "-", "+")] == [
        [b"db", db] for db in (b"0", b"1", b"2")
    ]


@pytest.mark.parametrize("way", ["keep", "new"])
def test_streams_whose_names_are_no_utf8_are_replayed(connection, tmp_path, capsys, way):
    write(tmp_path / "parquet" / "a.parquet", [1], stream="s\\xff")
    aof = tmp_path / "appendonly.aof"
    aof.write_bytes(encode_command(b"XADD", b"s\xff", b"2-0", b"n", b"2"))
    for source in (tmp_path / "parquet", aof):
        assert run(connection, source, "--stream", "s\udcff", "--to", "t\udcff", "--ids", way) == 0
        assert capsys.readouterr().out == "1 entries went into t\\xff\n"
    assert [words[1] for _, words in connection.call("XRANGE", b"t\xff", "-", "+")] == [b"1", b"2"]


@pytest.mark.parametrize("option", ["--rate", "--speed"])
@pytest.mark.parametrize("word", ["0", "-1", "nan", "inf", "fast"])
def test_a_pace_that_is_none_is_refused(tmp_path, capsys, option, word):
    write(tmp_path / "a.parquet", [1])
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(tmp_path), "--stream", "s", option, word])
    assert f"argument {option}: takes a number above 0, not '{word}'" in capsys.readouterr().err


def test_what_the_server_refuses_is_said(connection, tmp_path, capsys):
    connection.call("SET", "t", "x")
    write(tmp_path / "a.parquet", [1])
    assert run(connection, tmp_path, "--stream", "s", "--to", "t") == 1
    assert "WRONGTYPE" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run(connection, tmp_path, "--stream", "s", "--from", "yesterday")
    assert "not milliseconds since 1970 and not an ISO time: 'yesterday'" in capsys.readouterr().err


@pytest.fixture
def time(monkeypatch):
    class FakeTime:
        now = 5.0
        monotonic = staticmethod(lambda: FakeTime.now)
        sleep = staticmethod(lambda seconds: setattr(FakeTime, "now", FakeTime.now + seconds))

    monkeypatch.setattr(replay, "time", FakeTime)
    return FakeTime


def test_a_rate_is_kept(time):
    came = [time.now for _ in replay.paced(map(entry, range(1, 5)), 4, None)]
    assert came == [5.0, 5.25, 5.5, 5.75]


def test_a_speed_keeps_the_distances(time):
    entries = map(entry, (1000, 1500, 4000))
    assert [time.now for _ in replay.paced(entries, None, 2)] == [5.0, 5.25, 6.5]


def test_slow_entries_are_sent_as_they_come(time):
    def slow():
        for n in range(1, 4):
            time.now += 1
            yield entry(n)

    assert [len(chunk) for chunk in replay.chunks(slow())] == [1, 1, 1]
    assert [len(chunk) for chunk in replay.chunks(map(entry, range(1, 1201)))] == [500, 500, 200]
