"""The commands of a rewritten AOF: those of Redis for the same data, byte for byte."""

import random
import shutil
from pathlib import Path

import pytest
from support.aof import FLAGS, aof_files, read_commands, rewrite
from support.live import LiveServer
from support.servers import start_server

from rillet.storage.aof.rewrite import rewrite_commands
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.streams.stream import Stream


def load(wire, seed: int, *, deletes: bool = True) -> None:
    """Some hundred commands, so that every form comes up."""
    chance = random.Random(seed)
    keys = ["a", "b", "c", "with\r\nline", ""]
    for key in keys:
        wire.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
    for _ in range(600):
        key, group = chance.choice(keys), chance.choice(["g", "h", "\x00\xff"])
        me = chance.choice(["alice", "bob", "zoë", ""])
        ids = [f"{chance.randrange(1, 60)}-{chance.randrange(3)}" for _ in range(3)]
        fields = ["f", "v" * chance.randrange(20)] * chance.randrange(1, 6)
        # By name: the AOF does not hold a consumer that a read without entries makes.
        wire.call("XGROUP", "CREATECONSUMER", key, group, me)
        wire.call(
            *chance.choice(
                [
                    ("XADD", key, ids[0], *fields),
                    ("XADD", key, "*", *fields),
                    ("XADD", key, f"{chance.randrange(70)}-*", *fields),
                    ("XDEL", key, *ids) if deletes else ("XLEN", key),
                    ("XTRIM", key, "MAXLEN", str(chance.randrange(20))) if deletes else ("XLEN", key),
                    ("XGROUP", "CREATE", key, group, "$"),
                    ("XGROUP", "SETID", key, group, ids[0]),
                    ("XREADGROUP", "GROUP", group, me, "COUNT", "3", "STREAMS", key, ">"),
                    ("XREADGROUP", "GROUP", group, me, "COUNT", "2", "NOACK", "STREAMS", key, ">"),
                    ("XCLAIM", key, group, me, "0", *ids, "RETRYCOUNT", "9", "TIME", "1700000000000"),
                    ("XCLAIM", key, group, me, "0", *ids, "FORCE", "IDLE", "77"),
                    ("XACK", key, group, *ids),
                    ("PEXPIREAT", key, str(4_000_000_000_000 + chance.randrange(100))),
                    ("PERSIST", key),
                    ("SET", f"string{ids[0]}", ids[1]),
                    ("SET", f"string{ids[0]}", "x" * 100, "PXAT", "4000000000000"),
                ]
            )
        )
    wire.call("XADD", "emptied", "5-5", "a", "b")
    wire.call("XDEL", "emptied", "5-5")
    wire.call("SELECT", "9")
    wire.call("XADD", "elsewhere", "1-1", "a", "b")


def by_key(commands: list[list[bytes]]) -> dict[tuple[bytes, bytes], list[list[bytes]]]:
    """Return the commands of each key; the order of keys does not matter."""
    found: dict[tuple[bytes, bytes], list[list[bytes]]] = {}
    db = b""
    for words in commands:
        if words[0] == b"SELECT":
            db = words[1]
        else:
            key = words[2] if words[0] == b"XGROUP" else words[1]
            found.setdefault((db, key), []).append(words)
    return found


def rewritten(kind: str, root: Path, seed: int, *, deletes: bool = True) -> bytes:
    """The base file of a real server after a load; a copy of its files before that is left in `ours`."""
    (root / "theirs").mkdir()
    with start_server(kind, *FLAGS, folder=root / "theirs") as server, server.wire() as wire:
        load(wire, seed, deletes=deletes)
        shutil.copytree(root / "theirs" / "appendonlydir", root / "ours" / "appendonlydir")
        rewrite(wire)
    base, _ = aof_files(root / "theirs" / "appendonlydir")
    return base.read_bytes()


def ours(root: Path) -> bytes:
    with LiveServer(dir=root, appendonly=True) as server:
        return server.run_inside(lambda: b"".join(rewrite_commands(server.inside.keyspace)))


def comparable(kind: str, words: list[bytes]) -> list[bytes]:
    # The AOF of Redis 7.0 does not say how far XREADGROUP has counted.
    if kind == "redis7" and words[:2] == [b"XGROUP", b"CREATE"]:
        return words[:-1]
    return words


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
@pytest.mark.parametrize("seed", range(2))
def test_real_servers_and_we_rewrite_the_same_history_alike(kind, seed, tmp_path):
    real = by_key(read_commands(rewritten(kind, tmp_path, seed)))
    mine = by_key(read_commands(ours(tmp_path / "ours")))
    assert len(real) > 30
    assert mine.keys() == real.keys()
    for key, commands in mine.items():
        assert [comparable(kind, each) for each in commands] == [
            comparable(kind, each) for each in real[key]
        ], key


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_what_a_real_server_rewrote_we_rewrite_to_the_very_bytes(kind, tmp_path):
    # Without deletions: pending entries whose message is gone do not survive any load.
    theirs = rewritten(kind, tmp_path, 5, deletes=False)
    assert ours(tmp_path / "theirs") == theirs


def test_pieces_are_of_whole_commands_and_bounded():
    keyspace = Keyspace()
    stream = Stream()
    for number in range(1, 20_001):
        stream.append(number << 64, b"*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    keyspace.databases[0].add(b"s", stream)
    pieces = list(rewrite_commands(keyspace))
    assert len(pieces) > 10
    assert all(len(piece) < 70_000 for piece in pieces)
    assert sum(len(read_commands(piece)) for piece in pieces) == 20_002


def test_nothing_is_written_of_databases_without_keys():
    assert list(rewrite_commands(Keyspace())) == []
