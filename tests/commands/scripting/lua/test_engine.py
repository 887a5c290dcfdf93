"""Scripts in a server: their effects, propagation, permissions and atomicity."""

import pytest
from support.live import LiveServer


@pytest.fixture(scope="module")
def server():
    with LiveServer() as running:
        yield running


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.call("FLUSHALL")
        connection.call("FUNCTION", "FLUSH")
        connection.call("CONFIG", "RESETSTAT")
        yield connection


LIBRARY = (
    "#!lua name=lib\nredis.register_function('put', function(k, a) return redis.call('set', k[1], a[1]) end)"
)


def test_all_that_a_script_changes_is_one_transaction_in_the_aof():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as wire:
        wire.call("EVAL", "redis.call('set', 'a', 1) redis.call('incr', KEYS[1]) return 1", 1, "a")
        wire.call("EVAL", "return redis.call('set', 'b', 1)", 0)
        wire.call("EVAL", "redis.call('set', 'c', 1) error('late')", 0)
        wire.call("EVAL", "return redis.call('get', 'a')", 0)
        assert [b" ".join(words) for words in server.aof()] == [
            b"MULTI", b"SELECT 0", b"set a 1", b"incr a", b"EXEC", b"set b 1", b"set c 1",
        ]  # fmt: skip


def test_set_repl_chooses_where_effects_are_propagated():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as wire:
        wire.call(
            "EVAL",
            "redis.call('set', 'a', 1) redis.set_repl(redis.REPL_NONE) redis.call('set', 'b', 1) "
            "redis.set_repl(redis.REPL_AOF) redis.call('set', 'c', 1) "
            "redis.set_repl(redis.REPL_REPLICA) redis.call('set', 'd', 1)",
            0,
        )
        assert [words[1] for words in server.aof() if words[0] == b"set"] == [b"a", b"c"]


def test_time_stands_still_in_a_script(wire):
    code = "local a = redis.call('xadd', 's', '*', 'f', 'v') for i = 1, 300000 do end "
    first, second = wire.call("EVAL", code + "return {a, redis.call('xadd', 's', '*', 'f', 'v')}", 0).plain()
    assert first.split(b"-")[0] == second.split(b"-")[0]


def test_blocked_clients_are_served_after_the_script(server, wire):
    with server.wire() as reader:
        reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        server.wait_for_blocked(1)
        wire.call("EVAL", "redis.call('xadd', 's', '1-0', 'f', 'v') redis.call('del', 's')", 0)
        wire.call(
            "EVAL", "redis.call('xadd', 's', '2-0', 'f', 'v') redis.call('xadd', 's', '3-0', 'f', 'v')", 0
        )
        entries = reader.read().plain()[0][1]
        assert [entry[0] for entry in entries] == [b"2-0", b"3-0"]


def test_nothing_blocks_in_a_script(wire):
    assert wire.call("EVAL", "return redis.call('xread', 'block', 0, 'streams', 's', '$')", 0).plain() is None


def test_a_watched_key_that_a_script_changes_fails_the_transaction(server, wire):
    with server.wire() as other:
        wire.call("WATCH", "k")
        other.call("EVAL", "redis.call('set', 'k', 1)", 0)
        wire.call("MULTI")
        wire.call("PING")
        assert wire.call("EXEC").plain() is None


def test_a_select_in_a_script_is_its_own(wire):
    wire.call("EVAL", "redis.call('select', 5) redis.call('set', 'k', 1)", 0)
    assert wire.call("GET", "k").plain() is None
    assert wire.call("EVAL", "return redis.call('exists', 'k')", 0).plain() == 0


def test_monitors_see_the_script_before_its_commands(server, wire):
    with server.wire() as watcher:
        watcher.call("MONITOR")
        wire.call("EVAL", "return redis.call('set', 'k', 'v')", 1, "k")
        lines = [watcher.read().plain() for _ in range(2)]
        assert lines[0].endswith(b'] "EVAL" "return redis.call(\'set\', \'k\', \'v\')" "1" "k"')
        assert lines[1].endswith(b'[0 lua] "set" "k" "v"')


def test_a_caching_client_gets_invalidations_of_keys_that_its_script_read(server):
    with server.wire(3) as reader, server.wire() as writer:
        reader.call("CLIENT", "TRACKING", "ON")
        reader.call("EVAL", "return redis.call('get', 'k')", 1, "k")
        writer.call("SET", "k", 1)
        assert reader.read().plain() == [b"invalidate", [b"k"]]


def test_an_error_of_a_command_is_counted_once(server, wire):
    for code in ("return redis.call('incr')", "return redis.pcall('incr')"):
        wire.call("EVAL", code, 0)
    wire.call("SET", "k", "x")
    wire.call("EVAL", "return redis.call('incr', 'k')", 1, "k")
    wire.call("EVAL", "error('own')", 0)
    assert server.info("errorstat_ERR") == "count=4"
    assert "rejected_calls=2,failed_calls=1" in server.info("cmdstat_incr")
    assert "calls=4," in server.info("cmdstat_eval")
    assert server.info("cmdstat_eval").endswith("failed_calls=4")


def test_users_have_no_more_rights_in_scripts(server, wire):
    wire.call("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "-set", "~k*")
    with server.wire() as bob:
        bob.call("AUTH", "bob", "x")
        assert "ACL failure in script: User bob has no permissions to run the 'set' command" in str(
            bob.call("EVAL", "return redis.call('set', 'k', 1)", 0)
        )
        assert "No permissions to access a key" in str(bob.call("EVAL", "return redis.call('get', 'x')", 0))
        assert bob.call("EVAL", "return redis.acl_check_cmd('get', 'x')", 0).plain() is None
        assert bob.call("EVAL", "return redis.acl_check_cmd('get', 'k')", 0).plain() == 1
        assert str(bob.call("EVAL", "return redis.call('get', 'k')", 1, "x")).startswith("-NOPERM")
    assert {entry[5] for entry in wire.call("ACL", "LOG").plain()} == {b"lua", b"toplevel"}
    wire.call("ACL", "DELUSER", "bob")


def test_a_script_inside_a_transaction_is_part_of_it(wire):
    wire.call("MULTI")
    wire.call("EVAL", "return redis.call('set', 'k', 1)", 1, "k")
    wire.call("EVAL", "return redis.call('nosuch')", 0)
    done, failed = wire.call("EXEC").children
    assert str(done) == "+OK"
    assert str(failed).startswith("-ERR Unknown Redis command")
