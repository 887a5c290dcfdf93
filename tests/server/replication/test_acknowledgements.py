"""A replica acknowledges what its append-only file has: its master's clients in WAIT count on what a kill leaves."""

from threading import Event

from support.aof import aof_files
from support.deployments.replication import FakeMaster
from support.live import DEADLINE, LiveServer, eventually
from support.wire import encode_command

from rillet.storage.aof.writer import AppendOnlyFile
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import rdb_chunks

GETACK = encode_command("REPLCONF", "GETACK", "*")


def test_under_always_a_running_fsync_holds_back_what_is_on_the_disk_and_not_what_is_written(monkeypatch):
    begun, may_end = Event(), Event()
    sync = AppendOnlyFile.sync

    def slow_sync(aof: AppendOnlyFile) -> None:
        begun.set()
        assert may_end.wait(DEADLINE)
        sync(aof)

    with LiveServer(appendonly="yes", appendfsync="always") as replica, FakeMaster() as master:
        with replica.wire() as wire:
            wire.call("REPLICAOF", "127.0.0.1", master.port)
        peer, _ = master.accept()
        snapshot = b"".join(rdb_chunks(Keyspace(16)))
        peer.send_raw(b"+FULLRESYNC %b 0\r\n$%d\r\n%b" % (b"a" * 40, len(snapshot), snapshot))
        eventually(lambda: replica.info("master_link_status") == "up")
        eventually(lambda: replica.run_inside(lambda: replica.inside.persistence.is_on_disk))

        first = encode_command("SELECT", 0) + encode_command("SET", "a", "1")
        second = encode_command("SET", "b", "2")
        monkeypatch.setattr(AppendOnlyFile, "sync", slow_sync)
        try:
            peer.send_raw(first)
            assert begun.wait(DEADLINE)
            peer.send_raw(second)
            peer.send_raw(GETACK)
            offset = b"%d" % len(first + second)
            while (words := peer.command())[2] != offset:
                pass
            assert words == [b"replconf", b"ACK", offset, b"FACK", b"0"]
            file = b"".join(each.read_bytes() for each in aof_files(replica.folder / "appendonlydir"))
            assert second in file
        finally:
            may_end.set()
        while peer.command()[4] != b"%d" % len(first + second + GETACK):
            pass
