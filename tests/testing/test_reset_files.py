"""`Server.reset()` and the files of a server: what a restart finds."""

from pathlib import Path

import pytest
import redis
from support.background import aside
from support.until import until

import rillet.testing


def fill(server: rillet.testing.Server) -> None:
    with server.client() as client:
        client.mset({f"k{number}": "v" * 100 for number in range(100)})
        client.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)")


def expect_nothing(server: rillet.testing.Server) -> None:
    with server.client() as client:
        assert client.dbsize() == 0
        assert client.function_list() == []


def expect_to_keep(server: rillet.testing.Server) -> None:
    """What is written after the reset is there after a restart, and nothing else."""
    with server.client() as client:
        client.set("new", "v")
    server.restart()
    with server.client() as client:
        assert client.keys() == [b"new"]
        assert client.function_list() == []
        assert client.config_get("appendonly") == {"appendonly": "yes"}


def test_a_server_with_an_append_only_file_restarts_without_data(process):
    with rillet.testing.Server(process=process, appendonly=True) as server:
        fill(server)
        server.reset()
        server.restart()
        expect_nothing(server)
        expect_to_keep(server)


@pytest.mark.parametrize(
    "commands",
    [
        ["CONFIG SET appendonly no"],
        ["CONFIG SET appendonly no", "CONFIG SET appendonly yes"],
        ["BGREWRITEAOF"],
        ["CONFIG SET rdb-key-save-delay 1000000", "BGREWRITEAOF"],
        ["CONFIG SET appendfsync always"],
        ["CONFIG SET aof-timestamp-enabled ms", "MULTI", "SELECT 3", "SET k v", "EXEC"],
        ["DEBUG AOF-FLUSH-SLEEP 1000"],
        ["REPLICAOF 127.0.0.1 1"],
    ],
    ids=", then ".join,
)
def test_it_does_so_whatever_becomes_of_the_file(process, commands):
    with rillet.testing.Server(process=process, appendonly=True) as server:
        fill(server)
        with server.client(single_connection_client=True) as client:
            for command in commands:
                client.execute_command(*command.split(" "))
            server.reset()
        info = server.client().info("persistence")
        assert info["aof_enabled"] == 1
        assert info["aof_rewrite_in_progress"] == info["aof_rewrites"] == 0
        expect_to_keep(server)


def test_an_append_only_file_in_another_folder_is_left(tmp_path):
    with rillet.testing.Server(appendonly=True, enable_protected_configs="yes") as server:
        with server.client() as client:
            client.config_set("appendonly", "no")
            client.config_set("dir", str(tmp_path))
            client.config_set("appendonly", "yes")
            until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
            client.set("k", "v")
        server.reset()
        expect_to_keep(server)


def test_an_append_only_file_that_the_test_began_ends(process):
    with rillet.testing.Server(process=process) as server, server.client() as client:
        client.config_set("appendonly", "yes")
        server.reset()
        assert client.info("persistence")["aof_enabled"] == 0
        client.set("k", "v")
        server.restart()
        expect_nothing(server)


def test_a_reset_loses_no_reply_that_waits_for_the_append_only_file():
    with rillet.testing.Server(appendonly=True, appendfsync="always") as server:
        for number in range(5):
            with server.client() as client:
                client.set(f"k{number}", "v")
            server.reset()
            expect_nothing(server)


# Dump files


@pytest.mark.parametrize("command", ["SAVE", "BGSAVE"])
def test_a_dump_file_that_the_test_wrote_is_removed(process, command):
    with rillet.testing.Server(process=process) as server:
        fill(server)
        with server.client() as client:
            folder = Path(client.config_get("dir")["dir"])
            client.execute_command(command)
        server.reset()
        assert [path.name for path in folder.iterdir()] == []
        server.restart()
        expect_nothing(server)


def test_a_save_under_way_ends(process):
    with rillet.testing.Server(process=process) as server:
        fill(server)
        with server.client() as client:
            folder = Path(client.config_get("dir")["dir"])
            client.config_set("rdb-key-save-delay", 1_000_000)
            client.bgsave()
            server.reset()
            info = client.info("persistence")
            assert info["rdb_bgsave_in_progress"] == info["rdb_saves"] == 0
            assert client.execute_command("SAVE")
        server.restart()
        expect_nothing(server)
        assert [path.name for path in folder.iterdir()] == ["dump.rdb"]


def test_a_dump_file_that_the_server_only_read_stays(tmp_path):
    with rillet.testing.Server(dir=tmp_path) as server:
        fill(server)
        server.client().save()
    with rillet.testing.Server(dir=tmp_path) as server:
        server.reset()
        expect_nothing(server)
        server.restart()
        assert server.client().dbsize() == 100


def test_a_save_that_failed_is_forgotten(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with rillet.testing.Server(dir=folder, save="3600 1") as server, server.client() as client:
        folder.rename(tmp_path / "moved")
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            client.set("k", "v")
        (tmp_path / "moved").rename(folder)
        server.reset()
        assert client.set("k", "v")


# Replication


def test_replicas_follow_again_and_lose_the_data_too(process):
    with (
        rillet.testing.Server(process=process, repl_diskless_sync_delay=0) as server,
        rillet.testing.Server(replicaof=f"127.0.0.1 {server.port}".split()) as replica,
        server.client() as client,
        replica.client() as follower,
    ):
        client.set("old", "v")
        until(lambda: follower.get("old") == b"v")
        server.reset()
        client.set("new", "v")
        until(lambda: follower.keys() == [b"new"])


def test_a_server_that_began_as_a_replica_is_one_again():
    with (
        rillet.testing.Server(repl_diskless_sync_delay=0) as server,
        rillet.testing.Server(replicaof=f"127.0.0.1 {server.port}".split()) as replica,
        server.client() as client,
        replica.client() as follower,
    ):
        client.set("k", "v")
        until(lambda: follower.get("k") == b"v")
        follower.execute_command("REPLICAOF", "NO", "ONE")
        follower.set("own", "v")
        replica.reset()
        until(lambda: follower.keys() == [b"k"])
        assert follower.info("replication")["role"] == "slave"


def test_a_failover_under_way_ends():
    with (
        rillet.testing.Server(repl_diskless_sync_delay=0) as server,
        rillet.testing.Server(replicaof=f"127.0.0.1 {server.port}".split()) as replica,
        server.client() as client,
    ):
        until(lambda: client.info("replication")["connected_slaves"] == 1)
        replica.client().execute_command("DEBUG", "PAUSE-CRON", 1)
        replica.stop()
        client.execute_command("CLIENT", "PAUSE", 1_000_000, "WRITE")
        server.reset()
        assert client.info("replication")["master_failover_state"] == "no-failover"
        assert client.set("k", "v")


def test_a_transfer_to_another_server_is_given_up(process):
    with (
        rillet.testing.Server(process=process) as server,
        rillet.testing.Server() as target,
        server.client() as client,
    ):
        client.set("k", "v")
        target.client().execute_command("CLIENT", "PAUSE", 1_000_000, "ALL")
        migrating = aside(migrate, server, target.port)
        until(lambda: client.info("clients")["blocked_clients"] == 1)
        server.reset()
        migrating.result(60)
        target.reset()
        assert client.set("k", "v")


def migrate(server: rillet.testing.Server, port: int) -> None:
    with redis.Redis(port=server.port, retry=None) as client, pytest.raises(redis.ConnectionError):
        client.execute_command("MIGRATE", "127.0.0.1", port, "k", 0, 1_000_000)
