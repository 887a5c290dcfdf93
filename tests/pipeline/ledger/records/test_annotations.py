"""`aof-timestamp-enabled ms`: the lines it writes are comments to every real server, and times to the ledger."""

import shutil
import subprocess

import pytest
from support.servers import start_server

from rillet.pipeline.ledger.files.plan import read_ledger
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

FLAGS = ("--appendonly", "yes", "--appendfsync", "no")


def state_of(server) -> list[object]:
    with Connection(Endpoint(port=server.port)) as connection:
        pending = [
            [*row[:2], row[3]] for row in connection.call("XPENDING", "s", "g", "-", "+", 100)
        ]  # without the idle time
        return [
            connection.call("XRANGE", "s", "-", "+"),
            pending,
            connection.call("XINFO", "GROUPS", "s")[0][:10],
        ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder that Rillet wrote, and what was in its stream."""
    folder = tmp_path_factory.mktemp("annotated")
    with (
        start_server(
            "rillet", *FLAGS, "--rdb-version", 10, "--aof-timestamp-enabled", "ms", folder=folder
        ) as server,
        Connection(Endpoint(port=server.port)) as connection,
    ):
        connection.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        for number in range(1, 31):
            connection.call("XADD", "s", f"{number}-1", "f", "\r\n#MS:5\r\n*1\r\n$5\r\nMULTI\r\n")
            if number % 3 == 0:
                connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
                connection.call("XACK", "s", "g", f"{number}-1")
        state = state_of(server)
        began = int(connection.call("TIME")[0]) * 1000
    [file] = (folder / "appendonlydir").glob("*.incr.aof")
    assert file.read_bytes().count(b"\r\n#MS:1") > 2
    return folder, state, began


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_real_server_loads_what_stands_between_them(written, kind, tmp_path):
    folder, state, _ = written
    shutil.copytree(folder / "appendonlydir", tmp_path / "appendonlydir")
    assert len(state[0]) == 30
    assert len(state[1]) == 20
    with start_server(kind, *FLAGS, folder=tmp_path) as server:
        assert state_of(server) == state


def test_redis_check_aof_finds_nothing_wrong(written):
    folder, _, _ = written
    manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
    done = subprocess.run(
        ["redis-check-aof", manifest], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "All AOF files and manifest are valid" in done.stdout


def test_the_ledger_has_the_time_of_each_acknowledgement(written):
    folder, _, began = written
    rows = [row for batch in read_ledger(str(folder / "appendonlydir")) for row in batch.to_pylist()]
    acked = [row["at_ms"] for row in rows if row["event"] == "acked"]
    assert len(acked) == 10
    assert all(began - 60_000 < at < began + 2000 for at in acked)
    assert acked == sorted(acked)
