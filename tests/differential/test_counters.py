"""Stories in which counters of INFO and the ACL log move as in real servers."""

import re
import shlex

import pytest
from support.live import eventually
from support.servers import ServerProcess, start_server

# What differs between any two runs, or stands in docs/differences.md.
MASKS = (rb",slowlog_count=.*", rb"usec=\d+,usec_per_call=[\d.]+,", rb"(?<=cmdstat_)(config|info).*")
FIELDS = rb"^((?:cmdstat_|errorstat_|total_error_replies|unexpected_error|rdb_changes_since|acl_access|watching_|total_watched|client_\w+_limit).*)\r"
STORIES = {
    "errors of scripts": r"""
        SET s x
        EVAL "redis.pcall('incr','s') return 1" 0
        EVAL "return redis.pcall('incr','s')" 0
        EVAL "return redis.call('incr','s')" 0
        EVAL "return {1,redis.error_reply('X y')}" 0
        EVAL "return {redis.error_reply('X y'),redis.error_reply('Z y')}" 0
        EVAL "return {redis.pcall('incr','s'),redis.error_reply('Z y')}" 0
        EVAL "return {{{redis.pcall('incr','s')}}}" 0
        EVAL "return redis.pcall('get')" 0
        EVAL "return redis.pcall('nope')" 0
        EVAL "redis.error_reply('A b') return 1" 0
        EVAL "return {err='A'}" 0
        EVAL "error('a b')" 0
        EVAL "local e=redis.pcall('incr','s') error(e)" 0
        EVAL "x=1" 0
        EVAL "((" 0
        EVAL_RO "return redis.call('set','a','b')" 0
        EVALSHA abc 0
        EVAL "return 1" x
        MULTI; EVAL "return {err='A b'}" 0; INCR s; EXEC
    """,
    "errors of functions": r"""
        FUNCTION LOAD "#!lua name=l\nredis.register_function('f',function() return {err='MY d'} end)"
        FCALL f 0
        FCALL nope 0
        FCALL_RO f 0
    """,
    "codes of errors": r"""
        EVAL "return {err='a:b c'}" 0
        EVAL "return {err='#z c'}" 0
        EVAL "return {err='a#:b=c,d|%;{} c'}" 0
        EVAL "return {err='\xc3\xa9 c'}" 0
    """,
    "FLUSHALL with save points": r"""
        CONFIG SET save "900 1000"
        SET a 1
        FLUSHALL
        FLUSHALL
        SET a 1
        FLUSHALL ASYNC
        MSET a 1 b 1
        FLUSHDB
        MULTI; SET a 1; FLUSHALL; SET b 1; EXEC
        EVAL "redis.call('set','a','b') redis.call('flushall')" 0
        CONFIG SET save ""
        SET a 1
        FLUSHALL
    """,
    "commands without a subcommand": r"""
        XINFO
        CONFIG
        CONFIG NOSUCH
        MULTI; OBJECT; EXEC
        EVAL "return redis.pcall('xinfo')" 0
        SUBSCRIBE c; CLIENT; RESET
        CONFIG RESETSTAT
        XINFO
    """,
    "what CONFIG RESETSTAT leaves": r"""
        AUTH u x
        CONFIG RESETSTAT
        AUTH u x
    """,
    "keys that are watched until one changes": r"""
        WATCH a b
        WATCH b
        SET a 1
        WATCH d
        MULTI; GET a; EXEC
        WATCH d
        UNWATCH
    """,
}


def counters(server: ServerProcess, story: str) -> list[str]:
    """What INFO shows after each line of a story."""
    shown = []
    with server.wire() as wire:
        wire.call("FLUSHALL")
        wire.call("CONFIG", "RESETSTAT")
        for line in filter(None, map(str.strip, story.splitlines())):
            for words in map(shlex.split, re.split(r"; (?=[A-Z])", line)):
                wire.call(*(word.encode().decode("unicode_escape").encode("latin-1") for word in words))
            fields = re.findall(FIELDS, wire.call("INFO", "everything").value, re.MULTILINE)
            for mask in MASKS:
                fields = [re.sub(mask, b"", field) for field in fields]
            shown += [line, *sorted(field.decode("utf-8", "replace") for field in fields)]
    return shown


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_the_counters_move_as_in_real_servers(mine, real, story):
    with start_server(mine) as ours, start_server(real) as theirs:
        assert counters(ours, story) == counters(theirs, story)


def test_more_than_128_codes_of_errors_end_the_counting_by_code():
    story = "\n".join(f"EVAL \"return {{err='E{number} x'}}\" 0" for number in range(130))
    with start_server("rillet") as ours, start_server("redis810") as theirs:
        assert counters(ours, story)[-30:] == counters(theirs, story)[-30:]


def left_by_resetstat(server: ServerProcess) -> tuple[dict[str, bool], int]:
    """For each number of INFO that a busy life made positive, whether CONFIG RESETSTAT leaves it so; the peak's excess."""

    def numbers() -> dict[str, int]:
        found = re.findall(rb"^(\w+):(\d+)\r", wire.call("INFO", "everything").value, re.MULTILINE)
        return {name.decode(): int(number) for name, number in found}

    with server.wire() as wire, server.wire() as replica:
        for number in range(510):
            wire.call("EVAL", f"return {number}", 0)
        wire.call("SET", "k", "x" * 4_000_000)
        numbers()  # which notes the peak of memory
        for words in ("DEL k", "SET e 1 PX 1", "GET e", "GET a", "NOSUCH", "XADD k", "PUBLISH c x", "BGSAVE"):
            wire.call(*words.split())
        eventually(lambda: numbers()["rdb_saves"] and not numbers()["rdb_bgsave_in_progress"])
        replica.send("PSYNC", "?", "-1")
        eventually(lambda: numbers()["sync_full"] and not numbers()["rdb_bgsave_in_progress"])
        eventually(lambda: numbers()["expired_keys"])
        before = numbers()
        wire.call("CONFIG", "RESETSTAT")
        after = numbers()
    # Above 20: RESETSTAT and INFO count themselves again.
    kept = {
        name: after.get(name, 0) * 2 > number
        for name, number in before.items()
        if number > 20 and not name.startswith("instantaneous")
    }
    kept |= {name: name in after and after[name] > 0 for name in ("total_forks", "sync_full", "rdb_saves")}
    return kept, after["used_memory_peak"] - after["used_memory"]


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_resetstat_leaves_the_figures_that_it_leaves_in_real_servers(mine, real):
    with start_server(mine) as ours, start_server(real) as theirs:
        (left, excess), (left_there, excess_there) = left_by_resetstat(ours), left_by_resetstat(theirs)
    both = left.keys() & left_there.keys()
    assert {name: left[name] for name in both} == {name: left_there[name] for name in both}
    assert min(excess, excess_there) > 3_000_000, (excess, excess_there)


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_only_the_latest_entries_of_the_acl_log_are_counted_on(mine, real):
    def counts(server: ServerProcess, others: int) -> list[str]:
        with server.wire() as wire, server.wire() as user:
            wire.call("ACL", "LOG", "RESET")
            wire.call("ACL", "SETUSER", "u", "on", "nopass", "resetkeys", "+@all")
            user.call("AUTH", "u", "x")
            for key in ("a", *range(others), "a"):
                user.call("GET", key)
            return re.findall(r'"count" :(\d+)', str(wire.call("ACL", "LOG", 128)))

    with start_server(mine) as ours, start_server(real) as theirs:
        for others in (1, 8, 9, 10, 11, 20):
            assert counts(ours, others) == counts(theirs, others), others


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_similar_denials_take_no_number_of_the_acl_log(mine, real):
    def log(server: ServerProcess) -> list[tuple[str, ...]]:
        with server.wire() as wire, server.wire() as user:
            wire.call("ACL", "SETUSER", "u", "on", "nopass", "~*", "+get", "+multi", "+exec")
            user.call("AUTH", "u", "x")
            for words in (
                "SET a 1", "SET a 1", "INCR a", "SET a 1", "MULTI", "SET a 1", "EXEC", "LPOP a", "INCR a",
            ):  # fmt: skip
                user.call(*words.split())
            shown = str(wire.call("ACL", "LOG"))
            wire.call("ACL", "LOG", "RESET")
            user.call("LPOP", "b")
            shown += str(wire.call("ACL", "LOG"))
        return re.findall(r'"count" :(\d+)|"object" \$"(\w+)"|"entry-id" :(\d+)', shown)

    with start_server(mine) as ours, start_server(real) as theirs:
        assert log(ours) == log(theirs)
