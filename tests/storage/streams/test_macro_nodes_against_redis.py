"""Node borders, approximate trimming and counters must be exactly those of the real servers."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run
from support.thorough import examples
from support.wire import encode_command

from rillet.commands.runtime.deferral import Deferred
from rillet.storage.streams.ids import encode

INTEGERS = [0, 127, 128, -1, 4095, 4096, -4096, -4097, 32767, 32768, -32769, 8388607, 8388608, -8388609]
INTEGERS += [2**31, 2**63]
SIZES = [0, 1, 20, 63, 64, 125, 126, 127, 4095, 4096, 16380, 16381, 16382]
VALUES = (
    st.sampled_from([b"%d" % number for number in INTEGERS])
    | st.sampled_from([b"x" * size for size in SIZES])
    | st.sampled_from([b"-0", b"01", b"+1", b" 1", b"-", b"9223372036854775807", b"-9223372036854775808"])
)
PAIRS = st.lists(st.tuples(st.sampled_from([b"f", b"1", b"field"]), VALUES), min_size=1, max_size=3)
# How far an ID is from the one before: the difference in ms, and the sequence or the difference in it.
STEPS = st.tuples(st.sampled_from([0, 0, 1, 1, 5000, 2**33]), st.sampled_from([0, 1, 1, 200, 70000, 2**32]))
NUMBERS = st.integers(0, 60)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), STEPS, PAIRS, st.sampled_from([1, 1, 5, 40])),
        st.tuples(st.just("delete"), NUMBERS, st.sampled_from([1, 1, 4, 30])),
        st.tuples(st.just("maxlen"), st.sampled_from(["=", "~"]), NUMBERS, st.none() | NUMBERS),
        st.tuples(st.just("minid"), st.sampled_from(["=", "~"]), NUMBERS, st.none() | NUMBERS),
        st.tuples(
            st.just("limits"), st.sampled_from([0, 60, 200, 4096]), st.sampled_from([0, 1, 3, 10, 100, 200])
        ),
        st.just(("look",)),
    ),
    min_size=5,
    max_size=40,
)


def at_last(client, *words):
    """The reply, after whatever the command waits for."""
    while True:
        try:
            return run(client, *words)
        except Deferred as wait:
            while wait.step():
                pass


MANY_LARGE = [("add", (0, 1), [(b"f", b"x" * 16380)], 40), ("delete", 5, 30), ("look",)]


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(operations=OPERATIONS)
@example(operations=MANY_LARGE)  # each has a chunk for itself: the nodes are accounted for first
def test_nodes_are_those_of_the_real_server(running, kind, operations):
    server = FakeServer()
    client = make_client(server=server)
    ids: list[bytes] = []
    ms, seq = 1, 0

    with running(kind).wire() as wire:

        def both(*words):
            wire.send(*words)
            theirs = wire.read().encode()
            assert at_last(client, *words) == theirs, encode_command(*words)

        def set_limits(max_bytes, max_entries):
            server.config.stream_node_max_bytes = max_bytes
            server.config.stream_node_max_entries = max_entries
            for name, value in (
                ("stream-node-max-bytes", max_bytes),
                ("stream-node-max-entries", max_entries),
            ):
                assert wire.call("CONFIG", "SET", name, value).encode() == b"+OK\r\n"

        def look():
            stream = client.db.peek(b"s")
            if stream is None:
                return
            facts = wire.call("XINFO", "STREAM", "s").plain()
            facts = dict(zip(facts[::2], facts[1::2], strict=True))
            assert facts[b"radix-tree-keys"] == stream.macro_nodes.count
            assert facts[b"length"] == stream.length
            assert facts[b"recorded-first-entry-id"] == encode(stream.first_id)
            assert facts[b"max-deleted-entry-id"] == encode(stream.max_deleted_id)

        wire.call("DEL", "s")
        set_limits(4096, 100)
        for operation, *rest in operations:
            if operation == "add":
                (later, more), pairs, times = rest
                for _ in range(times):
                    ms, seq = ms + later, more if later else seq + more + 1
                    ids.append(b"%d-%d" % (ms, seq))
                    both("XADD", "s", ids[-1], *[word for pair in pairs for word in pair])
            elif operation == "limits":
                set_limits(*rest)
            elif operation == "look":
                look()
            elif operation == "delete":
                if ids:
                    start = rest[0] % len(ids)
                    both("XDEL", "s", *ids[start : start + rest[1]])
            else:
                operator, number, limit = rest
                threshold = number if operation == "maxlen" else (ids[number % len(ids)] if ids else "0-1")
                tail = ["LIMIT", limit] if limit is not None and operator == "~" else []
                both("XTRIM", "s", operation, operator, threshold, *tail)
        look()
        both("XRANGE", "s", "-", "+")
