import pytest
from support.servers import start_server
from support.until import until


@pytest.fixture(scope="module")
def server():
    with start_server("rillet", "--enable-debug-command", "yes") as process:
        yield process


@pytest.fixture(scope="module")
def durable():
    with start_server("rillet", "--enable-debug-command", "local", "--appendonly", "yes") as process:
        yield process


@pytest.fixture(scope="module")
def peer():
    with start_server("valkey", "--enable-debug-command", "yes") as process:
        yield process


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.call("FLUSHALL")
        yield connection
        connection.call("DEBUG", "CLOCK", "RESET")


@pytest.fixture
def durable_wire(durable):
    with durable.wire() as connection:
        connection.call("FLUSHALL")
        yield connection


def test_debug_is_refused_where_it_was_not_allowed(rillet_process, redis7):
    with rillet_process.wire() as ours, redis7.wire() as theirs:
        refusal = ours.call("DEBUG", "SLEEP", 0)
        assert refusal.value.startswith(b"ERR DEBUG command not allowed.")
        assert refusal.encode() == theirs.call("DEBUG", "SLEEP", 0).encode()


@pytest.mark.parametrize(
    "words",
    [
        "RESET",
        "CONTROL",
        "FAULT ADD ERROR OOM",
        "FAULT LIST",
        "RECORD START",
        "AOF-HISTORY k 1",
        "SNAPSHOT SAVE a",
        "CLOCK ADVANCE 1",
    ],
)
def test_nothing_that_is_for_tests_is_there_where_debug_was_not_allowed(rillet_process, words):
    with rillet_process.wire() as ours:
        for options in ([], ["EVAL", "return redis.call(unpack(ARGV))", "0", "DEBUG"]):
            refusal = ours.call(*(options or ["DEBUG"]), *words.split())
            assert refusal.kind == "-"
            assert b"not allowed" in refusal.value
        assert ours.call("PING").plain() == b"PONG"


SAME = """
FOO
SLEEP
SLEEP 0
SLEEP x
SLEEP 0.001
DIGEST
DIGEST x
DIGEST-VALUE
DIGEST-VALUE a b
OBJECT a
OBJECT
SET-ACTIVE-EXPIRE 0
SET-ACTIVE-EXPIRE 1
SET-ACTIVE-EXPIRE x
SET-ACTIVE-EXPIRE 1
SET-ACTIVE-EXPIRE
CHANGE-REPL-ID
CHANGE-REPL-ID x
POPULATE
POPULATE -1
POPULATE x
POPULATE 3 foo 20 1
PROTOCOL
PROTOCOL STRING
PROTOCOL string
PROTOCOL integer
PROTOCOL double
PROTOCOL null
PROTOCOL bignum
PROTOCOL array
PROTOCOL set
PROTOCOL map
PROTOCOL attrib
PROTOCOL verbatim
PROTOCOL true
PROTOCOL false
PROTOCOL foo
ERROR foo
ERROR
LOG hello
PAUSE-CRON 0
PAUSE-CRON
REPLICATE
SET-SKIP-CHECKSUM-VALIDATION 0
SET-DISABLE-DENY-SCRIPTS 0
RELOAD FOO
""".split("\n")[1:-1]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("line", SAME)
def test_it_replies_as_a_real_server(server, peer, line, protocol):
    with server.wire(protocol) as ours, peer.wire(protocol) as theirs:
        ours.call("FLUSHALL")
        assert ours.call("DEBUG", *line.split()).encode() == theirs.call("DEBUG", *line.split()).encode()
        # The line that switches it on again may run in another process, on another server.
        ours.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)


def test_protocol_push_comes_after_its_reply(server):
    with server.wire() as two, server.wire(3) as three:
        assert str(two.call("DEBUG", "PROTOCOL", "push")) == "-ERR RESP2 is not supported by this command"
        assert str(three.call("DEBUG", "PROTOCOL", "push")) == '$"Some real reply following the push reply"'
        assert str(three.read()) == '>[$"server-cpu-usage" :42]'


@pytest.mark.parametrize("arguments", [("2",), ("2", "foo"), ("2", "foo", "3"), ("2", "foo", "20"), ("0",)])
def test_populate_makes_the_keys_that_a_real_server_makes(server, peer, arguments):
    with server.wire() as ours, peer.wire() as theirs:
        seen = []
        for connection in (ours, theirs):
            connection.call("FLUSHALL")
            connection.call("SET", "foo:1", "there already")
            assert str(connection.call("DEBUG", "POPULATE", *arguments)) == "+OK"
            keys = sorted(connection.call("KEYS", "*").plain())
            seen.append({key: connection.call("GET", key).value for key in keys})
    assert seen[0] == seen[1]
    assert seen[0][b"foo:1"] == b"there already"


def test_object_shows_how_values_are_stored(wire):
    wire.call("SET", "number", "12")
    wire.call("SET", "short", "a" * 36)  # with the key 41 bytes
    wire.call("SET", "long", "a" * 38)
    wire.call("XADD", "s", "1-0", "a", "b")
    for key, encoding in (("number", "int"), ("short", "embstr"), ("long", "raw"), ("s", "stream")):
        shown = wire.call("DEBUG", "OBJECT", key).value.decode()
        assert shown.startswith("Value at:0x")
        assert f" refcount:1 encoding:{encoding} serializedlength:" in shown
        assert " lru_seconds_idle:" in shown
    assert b"serializedlength" not in wire.call("DEBUG", "OBJECT", "s", "fast").value
    assert wire.call("DEBUG", "OBJECT", "s", "slow").kind == "-"


def test_an_error_loses_its_line_breaks(wire):
    assert wire.call("DEBUG", "ERROR", b"OOPS a\r\nb").encode() == b"-OOPS a  b\r\n"


def test_loading_the_aof_needs_one(wire):
    wire.call("SET", "k", "v")
    assert wire.call("DEBUG", "LOADAOF").value.startswith(b"ERR DEBUG LOADAOF needs appendonly yes")
    assert wire.call("GET", "k").value == b"v"


WRITES = """
XADD s 1-0 a b
XADD s 1-1 a b
XADD s 2-0 c d
XGROUP CREATE s g 0
XGROUP CREATECONSUMER s g idle
XREADGROUP GROUP g bob COUNT 2 STREAMS s >
XACK s g 1-0
XCLAIM s g alice 0 1-1
XDEL s 2-0
SET k v PX 100000000
SELECT 3
SET other w
SELECT 0
""".split("\n")[1:-1]


@pytest.mark.parametrize("name", ["RELOAD", "LOADAOF"])
def test_a_reload_brings_the_same_data_back(durable_wire, name):
    for line in WRITES:
        assert durable_wire.call(*line.split()).kind != "-"
    before = durable_wire.call("DEBUG", "DIGEST")
    groups = durable_wire.call("XINFO", "GROUPS", "s")
    pending = durable_wire.call("XPENDING", "s", "g").encode()
    assert str(durable_wire.call("DEBUG", name)) == "+OK"
    assert durable_wire.call("DEBUG", "DIGEST") == before
    assert durable_wire.call("XINFO", "GROUPS", "s") == groups
    assert durable_wire.call("XPENDING", "s", "g").encode() == pending
    assert durable_wire.call("PEXPIRETIME", "k").plain() > 0
    durable_wire.call("XADD", "s", "5-0", "a", "b")
    assert durable_wire.call("DEBUG", "DIGEST") != before


def test_populated_keys_survive_a_reload(durable_wire):
    durable_wire.call("DEBUG", "POPULATE", 3)
    durable_wire.call("DEBUG", "RELOAD")
    assert durable_wire.call("DBSIZE").plain() == 3


def test_a_replicated_command_is_only_written_down(durable_wire):
    durable_wire.call("DEBUG", "REPLICATE", "SET", "k", "v")
    assert durable_wire.call("EXISTS", "k").plain() == 0
    durable_wire.call("DEBUG", "LOADAOF")
    assert durable_wire.call("GET", "k").value == b"v"


@pytest.mark.parametrize(
    "change",
    [
        "XADD s 9-0 a b",
        "XDEL s 1-0",
        "XSETID s 10-0",
        "XGROUP SETID s g 0",
        "XGROUP CREATE s other 0",
        "XGROUP CREATECONSUMER s g carol",
        "XACK s g 1-1",
        "XCLAIM s g alice 0 1-1 RETRYCOUNT 7",
        "XCLAIM s g bob 0 1-1",
        "PEXPIRE k 5",
        "PERSIST k",
        "SET k w KEEPTTL",
        "RENAME k k2",
        "MOVE k 5",
        "DEL s",
    ],
)
def test_the_digest_notices_every_change(wire, change):
    for line in WRITES:
        wire.call(*line.split())
    before = wire.call("DEBUG", "DIGEST")
    assert wire.call(*change.split()).kind != "-"
    assert wire.call("DEBUG", "DIGEST") != before


def test_the_digest_does_not_depend_on_the_order_of_keys(wire):
    digests = set()
    for order in (("a", "b", "c"), ("c", "a", "b")):
        wire.call("FLUSHALL")
        for key in order:
            wire.call("SET", key, f"value of {key}")
        digests.add(wire.call("DEBUG", "DIGEST").value)
    assert len(digests) == 1
    assert digests != {b"0" * 40}


def test_the_digest_of_a_value_does_not_depend_on_its_key(wire):
    wire.call("SET", "a", "1")
    wire.call("SET", "b", "1", "EX", "100")
    wire.call("SET", "c", "2")
    first, second, third, missing = wire.call("DEBUG", "DIGEST-VALUE", "a", "b", "c", "d").plain()
    assert first == second != third
    assert missing == b"0" * 40


def test_a_frozen_clock_stands_and_is_moved(wire):
    assert str(wire.call("DEBUG", "CLOCK", "FREEZE", 5000)) == ":5000"
    assert wire.call("TIME").plain() == [b"5", b"0"]
    assert wire.call("XADD", "s", "*", "a", "b").value == b"5000-0"
    assert str(wire.call("DEBUG", "CLOCK", "ADVANCE", 1500)) == ":6500"
    assert str(wire.call("DEBUG", "CLOCK", "NOW")) == ":6500"
    assert wire.call("XADD", "s", "*", "a", "b").value == b"6500-0"
    assert str(wire.call("DEBUG", "CLOCK", "ADVANCE", -500)) == ":6000"
    assert 6000 <= wire.call("DEBUG", "CLOCK", "RESUME").plain() < 1_000_000
    assert wire.call("DEBUG", "CLOCK", "RESET").plain() > 1_700_000_000_000


def test_idle_times_follow_the_clock(wire):
    wire.call("DEBUG", "CLOCK", "FREEZE")
    wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    wire.call("XADD", "s", "1-0", "a", "b")
    wire.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
    assert str(wire.call("XCLAIM", "s", "g", "alice", 3_600_000, "1-0")) == "*[]"
    wire.call("DEBUG", "CLOCK", "ADVANCE", 3_600_000)
    assert str(wire.call("XCLAIM", "s", "g", "alice", 3_600_000, "1-0")) == '*[*[$"1-0" *[$"a" $"b"]]]'


def test_keys_expire_when_the_clock_is_moved(wire):
    frozen = wire.call("DEBUG", "CLOCK", "FREEZE").plain()
    wire.call("SET", "k", "v", "PX", 1000)
    assert wire.call("PEXPIRETIME", "k").plain() == frozen + 1000
    assert wire.call("DEBUG", "CLOCK", "ADVANCE", 1000).plain() == frozen + 1000
    assert wire.call("DBSIZE").plain() == 1
    assert wire.call("DEBUG", "CLOCK", "ADVANCE", 1).plain() == frozen + 1001
    assert wire.call("DBSIZE").plain() == 0


def test_a_blocked_read_times_out_when_the_clock_is_moved(server, wire):
    wire.call("DEBUG", "CLOCK", "FREEZE")
    with server.wire() as reader:
        reader.send("XREAD", "BLOCK", 3_600_000, "STREAMS", "nothing", "$")
        until(lambda: b"blocked_clients:1" in wire.call("INFO", "clients").value)
        wire.call("DEBUG", "CLOCK", "ADVANCE", 3_600_000)
        assert str(reader.read()) == "null*"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("FOO",),
            "-ERR Use DEBUG CLOCK ADVANCE milliseconds, SKIP, AUTO-SKIP yes|no, FREEZE [milliseconds], RESUME, RESET or NOW",
        ),
        (
            ("ADVANCE",),
            "-ERR Use DEBUG CLOCK ADVANCE milliseconds, SKIP, AUTO-SKIP yes|no, FREEZE [milliseconds], RESUME, RESET or NOW",
        ),
        (("ADVANCE", "x"), "-ERR value is not an integer or out of range"),
        (("ADVANCE", str((1 << 63) - 1)), "-ERR value is out of range"),
        (("ADVANCE", str(-(1 << 63))), "-ERR value is out of range"),
        (("FREEZE", "-1"), "-ERR value is out of range, must be positive"),
        (
            ("NOW", "1"),
            "-ERR Use DEBUG CLOCK ADVANCE milliseconds, SKIP, AUTO-SKIP yes|no, FREEZE [milliseconds], RESUME, RESET or NOW",
        ),
        ((), "-ERR unknown subcommand or wrong number of arguments for 'CLOCK'. Try DEBUG HELP."),
    ],
)
def test_the_clock_refuses_nonsense(wire, words, error):
    assert str(wire.call("DEBUG", "CLOCK", *words)) == error


def test_the_clock_does_not_move_inside_a_transaction(wire):
    wire.call("MULTI")
    wire.call("DEBUG", "CLOCK", "ADVANCE", 1000)
    wire.call("DEBUG", "CLOCK", "NOW")
    refusal, now = wire.call("EXEC").children
    assert str(refusal) == "-ERR DEBUG CLOCK cannot move the time inside a transaction"
    assert now.kind == ":"


def test_a_paused_cron_expires_nothing_until_somebody_looks(wire):
    wire.call("DEBUG", "PAUSE-CRON", 1)
    wire.call("SET", "k", "v", "PX", 1)
    wire.call("DEBUG", "SLEEP", 0.25)
    assert wire.call("DBSIZE").plain() == 1
    wire.call("DEBUG", "PAUSE-CRON", 0)
    until(lambda: wire.call("DBSIZE").plain() == 0)


def test_active_expiry_can_be_switched_off(wire):
    wire.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    wire.call("DEBUG", "CLOCK", "FREEZE")
    wire.call("SET", "k", "v", "PX", 1)
    wire.call("DEBUG", "CLOCK", "ADVANCE", 100)
    assert wire.call("DBSIZE").plain() == 1
    wire.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    wire.call("DEBUG", "CLOCK", "ADVANCE", 1)
    assert wire.call("DBSIZE").plain() == 0


def test_a_new_replication_id_is_another_one(wire):
    def replication_id():
        text = wire.call("INFO", "replication").value.decode()
        return next(line for line in text.splitlines() if line.startswith("master_replid:"))

    before = replication_id()
    wire.call("DEBUG", "CHANGE-REPL-ID")
    assert replication_id() != before


def test_log_writes_into_the_log(server, wire):
    wire.call("DEBUG", "LOG", "a line of ours")
    assert "DEBUG LOG: a line of ours" in server.log


def test_help_lists_every_subcommand(wire):
    lines = wire.call("DEBUG", "HELP").plain()
    assert lines[0] == b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    assert lines[-2:] == [b"HELP", b"    Print this help."]
    assert b"SLEEP <seconds>" in lines
    assert b"POPULATE <count> [<prefix>] [<size>]" in lines


def test_skipping_checksums_reads_what_has_a_wrong_one(server, peer):
    for each in (server, peer):
        with each.wire() as wire:
            wire.call("FLUSHALL")
            wire.call("SET", "k", "v")
            payload = wire.call("DUMP", "k").value
            damaged = payload[:-8] + b"12345678"
            assert wire.call("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1).value == b"OK"
            assert wire.call("RESTORE", "other", 0, damaged).value == b"OK"
            assert (
                b"checksum"
                in wire.call("RESTORE", "third", 0, payload[:-10] + b"\xff\x00" + payload[-8:]).value
            )
            assert wire.call("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 0).value == b"OK"
            assert b"checksum" in wire.call("RESTORE", "third", 0, damaged).value
            assert wire.call("GET", "other").value == b"v"
