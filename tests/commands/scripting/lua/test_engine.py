"""Scripts in a server: where effects go, the clock, MONITOR, permissions. Replies: scripts/lua.script."""

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


def test_monitors_see_the_script_before_its_commands(server, wire):
    with server.wire() as watcher:
        watcher.call("MONITOR")
        wire.call("EVAL", "return redis.call('set', 'k', 'v')", 1, "k")
        lines = [watcher.read().plain() for _ in range(2)]
        assert lines[0].endswith(b'] "EVAL" "return redis.call(\'set\', \'k\', \'v\')" "1" "k"')
        assert lines[1].endswith(b'[0 lua] "set" "k" "v"')


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


def test_a_script_of_forty_kilobytes(wire):
    """As long as the longest that libraries send."""
    helpers = "\n".join(
        f"local function step{number}(key, by)\n"
        f"  -- adds {number} to a counter, and says so in its stream\n"
        f"  local value = redis.call('INCRBY', key, by + {number})\n"
        f"  if value > {number * 7} then redis.call('XADD', key .. ':log', '*', 'step', {number}) end\n"
        "  return value\n"
        "end"
        for number in range(150)
    )
    calls = "\n".join(f"total = step{number}(KEYS[1], tonumber(ARGV[1]))" for number in range(150))
    script = f"{helpers}\nlocal total = 0\n{calls}\nreturn total"
    assert len(script) > 40_000
    for times in (1, 2):
        assert wire.call("EVAL", script, 1, "n", 2).plain() == times * (sum(range(150)) + 300)
