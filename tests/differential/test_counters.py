"""What CONFIG RESETSTAT leaves of INFO, and how the ACL log counts, as in real servers."""

import re

import pytest
from support.live import eventually
from support.servers import ServerProcess, start_server


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
