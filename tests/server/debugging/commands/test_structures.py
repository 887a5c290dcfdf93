"""DEBUG subcommands of suites, as far as scripts/with_debug/debug.script cannot compare them; every literal is an answer of redis-server 8.10.2 or 7.0.15."""

import contextlib
import re
from threading import Thread

import pytest
from support.servers import start_server
from support.until import until

UNKNOWN = b"ERR unknown subcommand or wrong number of arguments for '%b'. Try DEBUG HELP."
LONG = "x" * 100


@pytest.fixture(scope="module", params=["rillet-8.10", "rillet-7.0"])
def server(request):
    with start_server(request.param, "--enable-debug-command", "yes") as process:
        process.version = request.param.partition("-")[2]
        yield process


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.do("FLUSHALL; RPUSH l a b; HSET h a 1")
        connection.call("HSET", "table", "a", LONG)
        connection.call("ZADD", "skiplist", "1", LONG)
        connection.call("SADD", "ints", "1")
        connection.call("SADD", "set", LONG, "b")
        connection.call("SET", "s", "v", "EX", "1000")
        connection.version = server.version
        yield connection


def test_htstats_shows_the_tables_that_redis_needs(wire):
    text = wire.call("DEBUG", "HTSTATS", "0", *(["full"] if wire.version != "7.0" else [])).value
    assert text.startswith(
        b"[Dictionary HT]\nHash table 0 stats (main hash table):\n table size: 8\n number of elements: 7\n different slots: "
    )
    assert (
        b"[Expires HT]\nHash table 0 stats (main hash table):\n table size: 4\n number of elements: 1\n"
        in text
    )
    if wire.version != "7.0":
        assert wire.call("DEBUG", "HTSTATS-KEY", "set").value == (
            b"Hash table 0 stats (main hash table):\n table size: 4\n number of elements: 2\n"
        )
    for key in ("table", "skiplist"):
        assert b" number of elements: 1\n" in wire.call("DEBUG", "HTSTATS-KEY", key).value


def test_sdslen_shows_strings_only(wire):
    sizes = wire.call("DEBUG", "SDSLEN", "s").value
    assert re.fullmatch(
        rb"key_sds_len:1, key_sds_avail:0, key_zmalloc: \d+, val_sds_len:1, val_sds_avail:0, val_zmalloc: \d+",
        sizes,
    )


def test_script_logs_the_source_of_scripts(server, wire):
    unknown = UNKNOWN % b"SCRIPT"
    assert wire.call("DEBUG", "SCRIPT", "x").value == unknown
    sha = wire.call("SCRIPT", "LOAD", "return 'logged once'").value.decode()
    if wire.version == "7.0":
        assert wire.call("DEBUG", "SCRIPT", "LIST").value == unknown
        return
    line = f"SCRIPT SHA: {sha}\nreturn 'logged once'\n"
    assert wire.call("DEBUG", "SCRIPT", sha.upper()).value == b"OK"
    until(lambda: server.log.count(line) == 1)
    assert wire.call("DEBUG", "SCRIPT", "list").value == b"OK"
    until(lambda: server.log.count(line) == 2)


def test_a_slow_aof_still_writes_everything(tmp_path):
    with start_server(
        "rillet", "--enable-debug-command", "yes", "--appendonly", "yes", folder=tmp_path
    ) as server:
        with server.wire() as wire:
            assert wire.call("DEBUG", "AOF-FLUSH-SLEEP", "1000").value == b"OK"
            assert wire.call("SET", "k", "v").value == b"OK"
        server.restart()
        with server.wire() as wire:
            assert wire.call("GET", "k").value == b"v"


def is_loading(server):
    with contextlib.suppress(OSError), server.wire() as wire:
        return wire.call("GET", "k1").value.startswith(b"LOADING")
    return False


@pytest.mark.parametrize("files", ["rdb", "aof"])
def test_key_load_delay_keeps_a_server_loading_until_it_is_taken_back(tmp_path, files):
    flags = ("--appendonly", "yes") if files == "aof" else ()
    with start_server("rillet", *flags, folder=tmp_path) as server:
        with server.wire() as wire:
            for number in range(10):
                wire.call("SET", f"k{number}", "v")
            wire.call("BGREWRITEAOF" if flags else "SAVE")
            until(lambda: b"aof_rewrite_in_progress:0" in wire.call("INFO", "persistence").value)
        server.stop()
        server.flags = (*server.flags, "--key-load-delay", "60000000")
        server.port = 0
        starting = Thread(target=server.start)  # which waits until the data is loaded
        starting.start()
        until(lambda: server.port and is_loading(server))
        with server.wire() as wire:
            assert b"loading:1" in wire.call("INFO", "persistence").value
            assert wire.call("CONFIG", "SET", "key-load-delay", "0").value == b"OK"
            until(lambda: wire.call("PING").value == b"PONG")
            assert wire.call("DBSIZE").value == b"10"
        starting.join()
