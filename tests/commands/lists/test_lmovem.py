"""LMOVEM and BLMOVEM in a file and on an old replica; scripts/newer/list_batches.script has the rest."""

from support.servers import start_server


def run(wire, line):
    return wire.call(*line.split()).plain()


def elements(wire, key):
    return b" ".join(run(wire, f"LRANGE {key} 0 -1")).decode()


def test_the_file_is_loaded_and_an_old_replica_holds_the_same(tmp_path):
    with start_server("rillet", "--appendonly", "yes", "--repl-diskless-sync-delay", 0) as master:
        with start_server("redis7") as replica, master.wire() as wire, replica.wire() as other:
            other.call("REPLICAOF", "127.0.0.1", master.port)
            while b"master_link_status:up" not in other.call("INFO", "replication").value:
                pass
            run(wire, "RPUSH l a b c d e")
            run(wire, "EXPIREAT l 33177117420")
            for line in (
                "LMOVEM l m LEFT LEFT COUNT 2 OBO",
                "BLMOVEM l m RIGHT LEFT 0 EXACTLY 1 BULK",
                "LMOVEM l l LEFT RIGHT COUNT 9 BULK",
                "LMOVEM m m RIGHT LEFT",
            ):
                run(wire, line)
                assert wire.call("WAIT", 1, 60_000).plain() == 1
                looks = [
                    (elements(each, "l"), elements(each, "m"), run(each, "EXPIRETIME l"))
                    for each in (wire, other)
                ]
                assert looks[0] == looks[1], line
        master.stop()
        master.start()
        with master.wire() as wire:
            assert (elements(wire, "l"), elements(wire, "m"), run(wire, "EXPIRETIME l")) == looks[0]
