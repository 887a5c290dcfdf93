"""Commands and names in an AOF that no server writes: a line in the log, and never a traceback."""

import pytest
from support.servers import start_server
from support.wire import encode_command

import rillet.testing


def folder(tmp_path, manifest, *commands):
    directory = tmp_path / "appendonlydir"
    directory.mkdir()
    (directory / "appendonly.aof.manifest").write_bytes(manifest)
    (directory / "appendonly.aof.1.incr.aof").write_bytes(
        b"".join(encode_command(*each) for each in commands)
    )
    return rillet.testing.Server(process=True, dir=str(tmp_path), appendonly=True)


@pytest.mark.parametrize("command", [["SHUTDOWN"], ["SHUTDOWN", "NOSAVE"], ["PSYNC", "?", "-1"], ["SYNC"]])
def test_a_command_that_needs_a_client_is_left_out(tmp_path, command):
    manifest = b"file appendonly.aof.1.incr.aof seq 1 type i\n"
    with folder(tmp_path, manifest, ["SET", "a", "1"], command, ["SET", "b", "2"]) as server:
        assert sorted(server.client().keys()) == ["a", "b"] or sorted(server.client().keys()) == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["b", "i", "h"])
@pytest.mark.parametrize("name", [r"\x00", r"a\x00b"])
def test_a_name_with_nul_in_the_manifest_is_refused_in_redis_words(tmp_path, name, kind):
    with pytest.raises(rillet.testing.StartError, match="File can't be a path, just a filename") as error:
        folder(tmp_path, f'file "{name}" seq 1 type {kind}\n'.encode()).start()
    assert "Traceback" not in str(error.value)


def test_commands_of_a_newer_version_are_read_back_by_an_older_one(tmp_path):
    flags = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    with (
        start_server("rillet", "--compat-version", "8.10", *flags, folder=tmp_path) as server,
        server.wire() as wire,
    ):
        wire.do(
            "HSETEX h PXAT 33177117420123 FIELDS 1 f v; XADD s 1-1 f v; XGROUP CREATE s g 0"
            "; XREADGROUP GROUP g c STREAMS s >; XNACK s g FAIL IDS 1 1-1"
        )
    with (
        start_server("rillet", "--compat-version", "7.0", *flags, folder=tmp_path) as server,
        server.wire() as wire,
    ):
        assert wire.call("HGET", "h", "f").value == b"v"
        wire.call("CONFIG", "SET", "compat-version", "8.10")
        assert wire.call("HPEXPIRETIME", "h", "FIELDS", 1, "f").plain() == [33177117420123]
        assert wire.call("XPENDING", "s", "g").plain()[0] == 1


def test_options_of_a_newer_version_are_read_back_by_an_older_one(tmp_path):
    flags = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    with start_server("rillet", *flags, folder=tmp_path) as server, server.wire() as wire:
        wire.do(
            "XADD s KEEPREF 1-1 f v; XADD s DELREF MAXLEN = 5 2-1 f v; XADD idle IDMP p i * f v; XTRIM s MAXLEN = 1 ACKED"
            "; SET k v; SET k w IFEQ v; HSET h f v; HEXPIRE h 1000 FIELDS 1 f NX; ZADD z 2e308 m"
            "; ZUNIONSTORE z2 2 z z AGGREGATE COUNT; BITOP DIFF bits k k"
        )
        keys = sorted(wire.call("KEYS", "*").plain())
        entries = wire.call("XRANGE", "s", "-", "+")
    with start_server("rillet-7.0", *flags, folder=tmp_path) as server, server.wire() as wire:
        assert "answered an error" not in server.log
        assert sorted(wire.call("KEYS", "*").plain()) == keys
        assert wire.call("XRANGE", "s", "-", "+") == entries
        assert wire.call("GET", "k").value == b"w"
        assert wire.call("ZSCORE", "z", "m").value == b"inf"
        assert wire.call("ZSCORE", "z2", "m").value == b"2"
        assert wire.call("SET", "k", "x", "IFEQ", "w").value == b"ERR syntax error"


def test_a_script_that_fails_is_not_run_twice(tmp_path):
    flags = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    script = encode_command("EVAL", "redis.call('INCR', 'n') error('late')", 0)
    (tmp_path / "appendonly.aof").write_bytes(encode_command("SELECT", 0) + script)
    with start_server("rillet-7.0", *flags, folder=tmp_path) as server, server.wire() as wire:
        assert wire.call("GET", "n").value == b"1"
