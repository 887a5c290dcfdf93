import pytest
from support.live import LiveServer, eventually


def test_nothing_that_is_for_tests_is_there_where_debug_was_not_allowed(rillet_process):
    forms = "RESET; CONTROL; FAULT ADD ERROR OOM; FAULT LIST; RECORD START; AOF-HISTORY k 1; SNAPSHOT SAVE a; CLOCK ADVANCE 1"
    with rillet_process.wire() as ours:
        for words in forms.split("; "):
            for options in ([], ["EVAL", "return redis.call(unpack(ARGV))", "0", "DEBUG"]):
                refusal = ours.call(*(options or ["DEBUG"]), *words.split())
                assert refusal.kind == "-", words
                assert b"not allowed" in refusal.value, words
        assert ours.call("PING").plain() == b"PONG"


def test_protocol_push_comes_after_its_reply(server):
    with server.wire() as two, server.wire(3) as three:
        assert str(two.call("DEBUG", "PROTOCOL", "push")) == "-ERR RESP2 is not supported by this command"
        assert str(three.call("DEBUG", "PROTOCOL", "push")) == '$"Some real reply following the push reply"'
        assert str(three.read()) == '>[$"server-cpu-usage" :42]'


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


def test_loading_the_aof_needs_one():
    with LiveServer() as server, server.wire() as wire:
        wire.call("SET", "k", "v")
        assert wire.call("DEBUG", "LOADAOF").value.startswith(b"ERR DEBUG LOADAOF needs appendonly yes")
        assert wire.call("GET", "k").value == b"v"


WRITES = (
    "XADD s 1-0 a b; XADD s 1-1 a b; XADD s 2-0 c d; XGROUP CREATE s g 0; XGROUP CREATECONSUMER s g idle; "
    "XREADGROUP GROUP g bob COUNT 2 STREAMS s >; XACK s g 1-0; XCLAIM s g alice 0 1-1; XDEL s 2-0; "
    "SET k v PX 100000000; SELECT 3; SET other w; SELECT 0"
).split("; ")
CHANGES = (
    "XADD s 9-0 a b; XDEL s 1-0; XSETID s 10-0; XGROUP SETID s g 0; XGROUP CREATE s other 0; "
    "XGROUP CREATECONSUMER s g carol; XACK s g 1-1; XCLAIM s g alice 0 1-1 RETRYCOUNT 7; XCLAIM s g bob 0 1-1; "
    "PEXPIRE k 5; PERSIST k; SET k w KEEPTTL; RENAME k k2; MOVE k 5; DEL s"
).split("; ")


def test_a_replicated_command_is_only_written_down(wire):
    wire.call("DEBUG", "REPLICATE", "SET", "k", "v")
    assert wire.call("EXISTS", "k").plain() == 0
    wire.call("DEBUG", "LOADAOF")
    assert wire.call("GET", "k").value == b"v"


@pytest.mark.parametrize("change", CHANGES)
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
    wire.do("SET a 1; SET b 1 EX 100; SET c 2")
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


CLOCK_USAGE = "-ERR Use DEBUG CLOCK ADVANCE milliseconds, SKIP, AUTO-SKIP yes|no, FREEZE [milliseconds], RESUME, RESET or NOW"


def test_the_clock_refuses_nonsense(wire):
    for words, error in (
        ("FOO", CLOCK_USAGE),
        ("ADVANCE", CLOCK_USAGE),
        ("NOW 1", CLOCK_USAGE),
        ("ADVANCE x", "-ERR value is not an integer or out of range"),
        (f"ADVANCE {(1 << 63) - 1}", "-ERR value is out of range"),
        (f"ADVANCE {-(1 << 63)}", "-ERR value is out of range"),
        ("FREEZE -1", "-ERR value is out of range, must be positive"),
        ("", "-ERR unknown subcommand or wrong number of arguments for 'CLOCK'. Try DEBUG HELP."),
    ):
        assert str(wire.call("DEBUG", "CLOCK", *words.split())) == error, words


def test_the_clock_does_not_move_inside_a_transaction(wire):
    wire.do("MULTI; DEBUG CLOCK ADVANCE 1000; DEBUG CLOCK NOW")
    refusal, now = wire.call("EXEC").children
    assert str(refusal) == "-ERR DEBUG CLOCK cannot move the time inside a transaction"
    assert now.kind == ":"


def test_a_paused_cron_expires_nothing_until_somebody_looks(wire):
    wire.do("DEBUG PAUSE-CRON 1; SET k v PX 1; DEBUG SLEEP 0.25")
    assert wire.call("DBSIZE").plain() == 1
    wire.call("DEBUG", "PAUSE-CRON", 0)
    eventually(lambda: wire.call("DBSIZE").plain() == 0)


def test_active_expiry_can_be_switched_off(wire):
    wire.do("DEBUG SET-ACTIVE-EXPIRE 0; DEBUG CLOCK FREEZE; SET k v PX 1; DEBUG CLOCK ADVANCE 100")
    assert wire.call("DBSIZE").plain() == 1
    wire.do("DEBUG SET-ACTIVE-EXPIRE 1; DEBUG CLOCK ADVANCE 1")
    assert wire.call("DBSIZE").plain() == 0


def test_a_new_replication_id_is_another_one(server, wire):
    before = server.info("master_replid")
    wire.call("DEBUG", "CHANGE-REPL-ID")
    assert server.info("master_replid") != before


def test_log_writes_into_the_log(server, wire):
    wire.call("DEBUG", "LOG", "a line of ours")
    assert "DEBUG LOG: a line of ours" in server.log.text()


def test_help_lists_every_subcommand(wire):
    lines = wire.call("DEBUG", "HELP").plain()
    assert lines[0] == b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    assert lines[-2:] == [b"HELP", b"    Print this help."]
    assert b"SLEEP <seconds>" in lines
    assert b"POPULATE <count> [<prefix>] [<size>]" in lines
