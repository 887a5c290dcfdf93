"""DEBUG subcommands of suites; every literal is an answer of redis-server 8.10.2 or 7.0.15."""

import contextlib
import re
from threading import Thread

import pytest
from support.servers import start_server
from support.until import until

UNKNOWN = b"ERR unknown subcommand or wrong number of arguments for '%b'. Try DEBUG HELP."
NOT_4GB = b"ERR argument must be a memory value bigger than 1 and smaller than 4gb"
LONG = "x" * 100


@pytest.fixture(scope="module", params=["rillet-8.10", "rillet-7.0"])
def server(request):
    with start_server(request.param, "--enable-debug-command", "yes") as process:
        process.version = request.param.partition("-")[2]
        yield process


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.call("FLUSHALL")
        connection.call("RPUSH", "l", "a", "b")
        connection.call("HSET", "h", "a", "1")
        connection.call("HSET", "table", "a", LONG)
        connection.call("ZADD", "skiplist", "1", LONG)
        connection.call("SADD", "ints", "1")
        connection.call("SADD", "set", LONG, "b")
        connection.call("SET", "s", "v", "EX", "1000")
        connection.version = server.version
        yield connection


def test_listpack_accepts_only_listpacks(wire):
    assert wire.call("DEBUG", "LISTPACK", "h").value == b"Listpack structure printed on stdout"
    assert wire.call("DEBUG", "LISTPACK", "nokey").value == b"ERR no such key"
    for key in ("s", "ints", "table", *(["l"] if wire.version == "7.0" else [])):
        assert wire.call("DEBUG", "LISTPACK", key).value == b"ERR Not a listpack encoded object."
    small = wire.call("DEBUG", "QUICKLIST", "l").value
    assert small == (
        b"Quicklist structure printed on stdout"
        if wire.version == "7.0"
        else b"ERR Not a quicklist encoded object."
    )


def test_htstats_shows_the_tables_that_redis_needs(wire):
    text = wire.call("DEBUG", "HTSTATS", "0", *(["full"] if wire.version != "7.0" else [])).value
    assert text.startswith(
        b"[Dictionary HT]\nHash table 0 stats (main hash table):\n table size: 8\n number of elements: 7\n different slots: "
    )
    assert (
        b"[Expires HT]\nHash table 0 stats (main hash table):\n table size: 4\n number of elements: 1\n"
        in text
    )
    empty = b"Hash table 0 stats (main hash table):\nNo stats available for empty dictionaries\n"
    if wire.version != "7.0":
        empty = b""
        assert wire.call("DEBUG", "HTSTATS-KEY", "set").value == (
            b"Hash table 0 stats (main hash table):\n table size: 4\n number of elements: 2\n"
        )
    assert (
        wire.call("DEBUG", "HTSTATS", "1").value == b"[Dictionary HT]\n" + empty + b"[Expires HT]\n" + empty
    )
    assert wire.call("DEBUG", "HTSTATS", "16").value == b"ERR Out of range database"
    assert wire.call("DEBUG", "HTSTATS", "x").value == b"ERR value is not an integer or out of range"
    for key in ("table", "skiplist"):
        assert b" number of elements: 1\n" in wire.call("DEBUG", "HTSTATS-KEY", key).value
    assert wire.call("DEBUG", "HTSTATS-KEY", "h").value == (
        b"ERR The value stored at the specified key is not represented using an hash table"
    )


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("QUICKLIST-PACKED-THRESHOLD 100b", b"OK"),
        ("QUICKLIST-PACKED-THRESHOLD 4290000000", b"OK"),
        ("QUICKLIST-PACKED-THRESHOLD 0", b"OK"),
        ("QUICKLIST-PACKED-THRESHOLD 4294000000", NOT_4GB),
        ("QUICKLIST-PACKED-THRESHOLD 1x", NOT_4GB),
        ("QUICKLIST-PACKED-THRESHOLD -1", NOT_4GB),
        ("QUICKLIST-PACKED-THRESHOLD", UNKNOWN % b"QUICKLIST-PACKED-THRESHOLD"),
        ("REPLYBUFFER PEAK-RESET-TIME NEVER", b"OK"),
        ("REPLYBUFFER PEAK-RESET-TIME 100", b"OK"),
        ("REPLYBUFFER PEAK-RESET-TIME x", b"ERR value is not an integer or out of range"),
        ("REPLYBUFFER RESIZING x", b"OK"),
        ("REPLYBUFFER FOO x", UNKNOWN % b"REPLYBUFFER"),
        ("REPLYBUFFER RESIZING", UNKNOWN % b"REPLYBUFFER"),
        ("AOF-FLUSH-SLEEP", UNKNOWN % b"AOF-FLUSH-SLEEP"),
        ("AOF-FLUSH-SLEEP x", b"OK"),
        ("AOF-FLUSH-SLEEP 0", b"OK"),
    ],
)
def test_words_are_checked_as_redis_checks_them(wire, words, reply):
    assert wire.call("DEBUG", *words.split()).value == reply


def test_sdslen_shows_strings_only(wire):
    sizes = wire.call("DEBUG", "SDSLEN", "s").value
    assert re.fullmatch(
        rb"key_sds_len:1, key_sds_avail:0, key_zmalloc: \d+, val_sds_len:1, val_sds_avail:0, val_zmalloc: \d+",
        sizes,
    )
    wire.call("SET", "n", "12")
    for key in ("n", "h"):
        assert wire.call("DEBUG", "SDSLEN", key).value == b"ERR Not an sds encoded string."
    assert wire.call("DEBUG", "SDSLEN", "nokey").value == b"ERR no such key"
    assert wire.call("DEBUG", "SDSLEN").value == UNKNOWN % b"SDSLEN"


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


def test_expired_keys_are_found_while_debug_allows_it(wire):
    if wire.version == "7.0":
        refused = wire.call("DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "1").value
        assert refused == UNKNOWN % b"SET-ALLOW-ACCESS-EXPIRED"
        return
    wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    wire.call("SET", "k", "v", "PX", "1")
    wire.call("HSET", "fields", "f", "1", "g", "2")
    wire.call("HPEXPIRE", "fields", "1", "FIELDS", "1", "f")
    wire.call("DEBUG", "CLOCK", "ADVANCE", "10")
    assert wire.call("DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "1").value == b"OK"
    assert wire.call("GET", "k").value == b"v"
    assert wire.call("TTL", "k").value == b"0"
    assert wire.call("EXISTS", "k").value == b"1"
    assert wire.call("HGET", "fields", "f").value == b"1"
    assert wire.call("HLEN", "fields").value == b"2"
    assert wire.call("DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "0").value == b"OK"
    assert wire.call("GET", "k").plain() is None
    assert wire.call("HGET", "fields", "f").plain() is None
    wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")


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
