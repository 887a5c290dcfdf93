"""Snapshots among random commands of all types: what is restored is what was there, whatever was changed since."""

import contextlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)
from redis import ResponseError

import rillet.testing

KEYS = st.sampled_from(("string", "list", "hash", "set", "zset", "stream"))
WORDS = st.sampled_from(("a", "b", "c", "7", "x" * 100))
NUMBERS = st.integers(1, 9)
COMMANDS = st.one_of(
    st.tuples(st.just("SET"), st.just("string"), WORDS),
    st.tuples(st.just("APPEND"), st.just("string"), WORDS),
    st.tuples(st.just("SETBIT"), st.just("string"), NUMBERS, st.just(1)),
    st.tuples(st.sampled_from(("LPUSH", "RPUSH")), st.just("list"), WORDS, WORDS),
    st.tuples(st.just("LSET"), st.just("list"), st.just(0), WORDS),
    st.tuples(st.sampled_from(("LPOP", "RPOP", "SPOP", "ZPOPMIN")), KEYS),
    st.tuples(st.just("HSET"), st.just("hash"), WORDS, WORDS),
    st.tuples(st.just("HDEL"), st.just("hash"), WORDS),
    st.tuples(st.just("HPEXPIRE"), st.just("hash"), NUMBERS.map(lambda n: n * 1000), *map(st.just, ("FIELDS", 1)), WORDS),
    st.tuples(st.sampled_from(("SADD", "SREM")), st.just("set"), WORDS),
    st.tuples(st.just("ZADD"), st.just("zset"), NUMBERS, WORDS),
    st.tuples(st.just("ZREM"), st.just("zset"), WORDS),
    st.tuples(st.just("XADD"), st.just("stream"), st.just("*"), WORDS, WORDS),
    st.tuples(st.just("XTRIM"), st.just("stream"), st.just("MAXLEN"), NUMBERS),
    st.tuples(*map(st.just, ("XREADGROUP", "GROUP", "g")), WORDS, st.just("COUNT"), NUMBERS, *map(st.just, ("STREAMS", "stream", ">"))),
    st.tuples(*map(st.just, ("XAUTOCLAIM", "stream", "g")), WORDS, *map(st.just, (0, 0, "COUNT")), NUMBERS),
    st.tuples(*map(st.just, ("XGROUP", "DESTROY", "stream", "g"))),
    st.tuples(*map(st.just, ("XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM"))),
    st.tuples(st.just("PEXPIRE"), KEYS, NUMBERS.map(lambda n: n * 1000)),
    st.tuples(st.sampled_from(("DEL", "UNLINK", "PERSIST")), KEYS),
    st.tuples(st.just("RENAME"), KEYS, KEYS),
    st.tuples(st.just("COPY"), KEYS, KEYS, st.just("REPLACE")),
    st.tuples(st.just("SWAPDB"), st.just(0), st.just(1)),
    st.tuples(st.just("FLUSHALL")),
)  # fmt: skip


class Snapshots(RuleBasedStateMachine):
    """One server at a standing clock; each snapshot is kept with what a client saw when it was taken."""

    server: rillet.testing.Server
    taken = Bundle("taken")

    @initialize()
    def begin(self) -> None:
        self.server.reset()
        self.server.clock.freeze()
        self.client = self.server.client(decode_responses=True, single_connection_client=True)

    @rule(command=COMMANDS)
    def change(self, command: tuple[Any, ...]) -> None:
        with contextlib.suppress(ResponseError):  # of another type, or nothing is there
            self.client.execute_command(*command)

    @rule(milliseconds=st.integers(1, 3000))
    def advance(self, milliseconds: int) -> None:
        self.client.execute_command("DEBUG", "CLOCK", "ADVANCE", milliseconds)

    @rule(target=taken)
    def take(self) -> Any:
        return self.server.snapshot(), self.seen(), self.server.clock.now

    @rule(one=taken)
    def restore(self, one: Any) -> None:
        snapshot, seen, when = one
        self.server.restore(snapshot)
        if self.server.clock.now == when:  # else keys may have expired
            assert self.seen() == seen

    @rule(one=consumes(taken))
    def forget(self, one: Any) -> None:
        del one

    def seen(self) -> dict[tuple[int, str], Any]:
        """Return what both databases hold, read type by type."""
        found: dict[tuple[int, str], Any] = {}
        for db in (0, 1):
            self.client.execute_command("SELECT", db)
            for key in self.client.scan_iter():
                value = READ[self.client.type(key)](self.client, key)
                found[db, key] = value, self.client.pexpiretime(key)
        self.client.execute_command("SELECT", 0)
        return found

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.close()


READ = {
    "string": lambda client, key: client.get(key),
    "list": lambda client, key: client.lrange(key, 0, -1),
    "hash": lambda client, key: (
        found := client.hgetall(key),
        client.execute_command("HPEXPIRETIME", key, "FIELDS", len(found), *found),
    ),
    "set": lambda client, key: client.smembers(key),
    "zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
    "stream": lambda client, key: client.execute_command("XINFO", "STREAM", key, "FULL", "COUNT", 0),
}


@pytest.mark.parametrize("appendonly", [False, True])
def test_a_restored_snapshot_is_what_was_taken(appendonly):
    with rillet.testing.Server(appendonly=appendonly) as server:
        machine = type("Machine", (Snapshots,), {"server": server})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=15, stateful_step_count=30, deadline=None)
        )
