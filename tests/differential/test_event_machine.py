"""Generated runs over all types: keyspace events in their order, and the invalidations of caching clients."""

from contextlib import ExitStack

import pytest
from differential.pairs import PAIRS
from differential.strategies import hash_commands, list_commands, set_commands
from differential.strategies.all_types import WHOLE
from differential.strategies.commands import fuzz_settings, line, one_of
from hypothesis import given
from hypothesis import strategies as st
from support.servers import start_server

# Nothing that depends on chance: both servers are to hold the same.
OTHERS = st.one_of(
    line("GEOADD", one_of("z", "y"), "13.36", "38.11", one_of("a", "b"), "15.08", "37.5", "c"),
    line("GEORADIUS", "z", "14", "38", "200", "km", "STORE", one_of("y", "x")),
    line("GEOSEARCHSTORE", one_of("y", "x"), "z", "FROMLONLAT", "14", "38", "BYRADIUS", "200", "km"),
    line("SORT", one_of("l", "s", "z", "n"), "ALPHA", "GET", "#", "STORE", one_of("l", "x")),
    line("PFADD", "p", one_of("a", "b", "c")),
    line("PFCOUNT", "p"),
    line("SPOP", one_of("s", "t"), "99"),
    line(
        "EVAL",
        "redis.call('RPUSH', KEYS[1], 1) redis.call('HSET', KEYS[2], 'f', 1) return redis.call('DEL', KEYS[1])",
        "2",
        one_of("l", "x"),
        "h",
    ),
)
SORTS = (
    hash_commands.ONE, list_commands.ONE, OTHERS, WHOLE,
    set_commands.SETS, set_commands.ADDING, set_commands.TAKING, set_commands.ALGEBRA,
)  # fmt: skip
ONE = st.sampled_from(SORTS).flatmap(lambda sort: sort)
ALONE = ONE.map(lambda command: [command])
TOGETHER = st.lists(ONE, min_size=1, max_size=4).map(lambda inside: [["MULTI"], *inside, ["EXEC"]])
RUN = st.lists(st.sampled_from([ALONE] * 5 + [TOGETHER]).flatmap(lambda step: step), max_size=25).map(
    lambda parts: set_commands.BEGINNING + [command for part in parts for command in part]
)
MASK = "KEA"


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: pair[0])
def both(request):
    with start_server(request.param[0]) as mine, start_server(request.param[1]) as real:
        yield mine, real


def pushes(wire):
    """What was pushed until now: the events, and the invalidated keys in any order."""
    wire.send("PING")
    events, invalidations = [], []
    while (node := wire.read()).kind == ">":
        (invalidations if "invalidate" in str(node) else events).append(str(node))
    assert node.value == b"PONG"
    return events, sorted(invalidations)


@fuzz_settings(40)
@given(run=RUN)
def test_events_and_invalidations_are_those_of_redis_server(both, run):
    with ExitStack() as stack:
        writers = [stack.enter_context(server.wire()) for server in both]
        listeners = [stack.enter_context(server.wire(3)) for server in both]
        for writer, listener in zip(writers, listeners, strict=True):
            writer.call("FLUSHALL")
            writer.call("CONFIG", "SET", "notify-keyspace-events", MASK)
            listener.call("CLIENT", "TRACKING", "ON", "BCAST")
            listener.call("PSUBSCRIBE", "__key*")
        seen = 0
        for command in run:
            for writer in writers:
                writer.call(*command)
            mine, expected = map(pushes, listeners)
            assert mine == expected, command
            seen += len(expected[0])
        assert seen >= len(set_commands.BEGINNING)
