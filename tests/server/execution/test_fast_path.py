"""The fast path of plain clients, one command at a time and in batches, against the general way, its specification."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.alone import NOW, Alone
from support.thorough import examples
from support.wire import commands

from rillet.commands.spec.command import SHORTEST_RUN
from rillet.protocol.replies import command
from rillet.server.persistence.aof_replay import LoaderClient, replay

_SCRIPT = [b"EVAL", b"return {redis.call('incr', 'n'), redis.pcall('lpush', 'text', 'v')}", b"0"]

words = st.binary(max_size=5) | st.sampled_from([b"x" * 1100, b"y" * 5000, b"\r\n"])
keys = st.sampled_from([b"a", b"a", b"b", b"text"])
pairs = st.lists(words, min_size=2, max_size=6)
xadd = st.builds(lambda key, pair: [b"XADD", key, b"*", *pair], keys, pairs)
runs = st.builds(
    lambda verb, key, pair, times: [[verb, key, b"*", *pair]] * times,
    st.sampled_from([b"XADD", b"XADD", b"XADD", b"xadd", b"XAdd"]),
    keys,
    pairs,
    st.integers(SHORTEST_RUN - 1, 300),
)


def requests(text: str) -> list[list[bytes]]:
    """Commands with times by name: NOW, LATER (a millisecond), SOON (five), HIGHEST (of 64 bits)."""
    times = {"NOW": NOW, "LATER": NOW + 1, "SOON": NOW + 5, "HIGHEST": (1 << 64) - 1}
    for name, time in times.items():
        text = text.replace(name, str(time))
    return [[word.encode() for word in words] for words in commands(text)]


others = st.sampled_from([
    *requests("""
        XLEN a; PING; SET text 1; DEL a; XADD a NOMKSTREAM * f v; XADD a MAXLEN 5 * f v
        XADD a LATER-18446744073709551600 f v; XADD b HIGHEST-18446744073709551600 f v; XADD a 1-1 f v; XADD a *
        XDEL a NOW-0; PEXPIREAT a SOON; PERSIST a; SELECT 1; SELECT 0; MULTI; EXEC; CLIENT REPLY SKIP
        SUBSCRIBE news; UNSUBSCRIBE; HELLO 3; XREAD BLOCK 0 STREAMS b $; NONSENSE; GET text; INCR text
        LPUSH text v; GET; XREADGROUP GROUP g me COUNT 2 STREAMS a >; XREADGROUP GROUP g me BLOCK 0 STREAMS a >
        XCLAIM a g you 0 7-7; XACK a g 7-7; BLPOP list 0; LPUSH list 1 2; EXPIRE text 0; WATCH text; DISCARD
        CONFIG SET stream-node-max-entries 7
    """),
    _SCRIPT,
])  # fmt: skip
given_ids = st.builds(
    lambda key, ms, number, pair: [[b"XADD", key, b"%d-%d" % (ms, seq), *pair] for seq in range(number)],
    keys,
    st.sampled_from([1, 5, NOW, NOW + 3, NOW + 4]),
    st.integers(SHORTEST_RUN - 1, 300),
    pairs,
)
trimming = st.builds(
    lambda verb, key, number, pairs: [[verb, key, b"MAXLEN", b"~", number, b"*", *pair] for pair in pairs],
    st.sampled_from([b"XADD", b"XADD", b"xadd"]),
    keys,
    st.sampled_from(
        [b"0", b"1", b"10", b"150", b"150", b"1000", b"9999999999999999999", b"010", b"-1", b"x"]
    ),
    pairs.flatmap(
        lambda pair: (
            st.integers(SHORTEST_RUN - 1, 400).map(lambda times: [pair] * times)
            | st.lists(pairs, max_size=12)
        )
    ),
)
transactions = st.lists(
    xadd.map(lambda one: [one]) | runs | given_ids | trimming | others.map(lambda one: [one]), max_size=4
).map(lambda parts: [[b"MULTI"], *(words for part in parts for words in part), [b"EXEC"]])
before = st.lists(
    st.sampled_from(
        requests("""
            WATCH a; BLPOP list 0; XREADGROUP GROUP g you BLOCK 0 STREAMS a >; XREAD BLOCK 0 STREAMS a b $ $
            CONFIG SET notify-keyspace-events KEA; PSUBSCRIBE __key*; CLIENT TRACKING ON BCAST
            XADD a LATER-18446744073709551600 f v; PEXPIREAT a SOON; XGROUP CREATE a g $ MKSTREAM; MONITOR
        """)
    ),
    max_size=3,
)


@settings(max_examples=examples(60))
@given(
    before,
    st.lists(
        st.lists(
            xadd.map(lambda one: [one])
            | runs
            | given_ids
            | trimming
            | transactions
            | others.map(lambda one: [one]),
            max_size=6,
        ),
        max_size=3,
    ),
)
@example(
    [[b"XADD", b"a", b"%d-18446744073709551600" % (NOW + 1), b"f", b"v"]],
    [[[[b"XADD", b"a", b"*", b"f", b"v"]] * 30]],
)
@example(
    [], [[[[b"MULTI"], *[[b"XADD", b"a", b"*", b"f", b"v"]] * 30, [b"XLEN", b"a"], [b"NONSENSE"], [b"EXEC"]]]]
)
@example([], [[[[b"MULTI"], *[[b"XADD", b"a", b"*", b"f", b"v"]] * 30, [b"XLEN", b"a"], [b"EXEC"]]]])
@example([[b"BLPOP", b"list", b"0"]], [[[_SCRIPT, [b"LPUSH", b"list", b"1"], [b"BLPOP", b"none", b"0"]]]])
def test_batches_single_commands_the_careful_and_the_recorded_way_do_the_same(preparation, batches):
    recorded = [Alone(recorded=True), Alone(recorded=True, may_fail=True)]
    ways = [Alone(), Alone(), *recorded, Alone(careful=True)]
    for at, way in enumerate(ways):
        way.send(0, command([b"XADD", b"a", b"7-7", b"f", b"v"]))
        way.send(0, command([b"XGROUP", b"CREATE", b"a", b"g", b"0"]))
        for who, words in enumerate(preparation):
            way.send(
                1 + who, command(words)
            )  # what one that is blocked sends waits for the loop, not for a batch
        for batch in batches:
            encoded = [command(words) for run in batch for words in run]
            for data in [b"".join(encoded)] if at == 0 else encoded:
                if data:
                    way.send(0, data)
    expected = ways[-1].state()
    for way in ways[:-1]:
        found = way.state()
        for name, value in expected.items():
            assert found[name] == value, name
    assert recorded[0].recorded() == recorded[1].recorded()


@pytest.mark.parametrize("number", [SHORTEST_RUN, 1000])
@pytest.mark.parametrize("new_id", [b"*", b"1900000000000-%d", b"MAXLEN ~ 250 *"])
def test_a_run_of_xadds_is_run_together(number, new_id, monkeypatch):
    alone = Alone()
    alone.send(0, command([b"XADD", b"a", b"*", b"f", b"v"]))
    entry = alone.server.dispatcher.find([b"XADD"])
    monkeypatch.setattr(entry, "handler", None)
    ids = [(new_id % seq if b"%" in new_id else new_id).split() for seq in range(number)]
    alone.send(0, b"".join([command([b"XADD", b"a", *each, b"f", b"v"]) for each in ids]))
    assert entry.calls == 1 + number
    length = alone.server.keyspace.databases[0].entries[b"a"].length
    assert length == (1 + number if len(ids[0]) == 1 or number < 250 else 301)


def test_three_xadds_are_no_run(monkeypatch):
    """They are not even looked at as one, which costs more than it saves."""
    alone = Alone()
    add = command([b"XADD", b"a", b"*", b"f", b"v"])
    alone.send(0, add)
    asked = []
    entry = alone.server.dispatcher.find([b"XADD"])
    monkeypatch.setattr(entry, "batch_handler", lambda *words: asked.append(words))
    alone.send(0, 3 * add)
    assert not asked
    alone.send(0, 4 * add)
    assert len(asked) == 1


@pytest.mark.parametrize("around", [[], [[b"MULTI"], [b"EXEC"]]])
def test_a_bug_in_a_run_is_answered_as_one_in_a_command(around, monkeypatch):
    alone = Alone()
    alone.send(0, command([b"XADD", b"a", b"*", b"f", b"v"]))
    entry = alone.server.dispatcher.find([b"XADD"])
    monkeypatch.setattr(entry, "batch_handler", lambda *_: 1 / 0)
    adds = [[b"XADD", b"a", b"*", b"f", b"v"]] * 5
    alone.send(0, b"".join(map(command, [*around[:1], *adds, *around[1:], [b"PING"]])))
    replies = alone.clients[0].transport.written[-1]
    assert replies.count(b"-ERR internal error\r\n") == 5  # some may have been run: none runs again
    assert replies.endswith(b"-ERR internal error\r\n+PONG\r\n")
    assert alone.server.stats.unexpected_errors == 1


def test_a_single_command_of_a_plain_client_takes_the_short_way(monkeypatch):
    alone = Alone()
    monkeypatch.setattr(alone.server.dispatcher, "run", None)
    alone.send(0, command([b"XADD", b"a", b"1-1", b"f", b"v"]))
    assert alone.clients[0].transport.written == [b"$3\r\n1-1\r\n"]


def test_what_a_transaction_queues_takes_the_short_way(monkeypatch):
    alone = Alone()
    dispatcher = alone.server.dispatcher
    careful = []
    process = dispatcher.process
    monkeypatch.setattr(
        dispatcher, "process", lambda client, argv: careful.append(argv) or process(client, argv)
    )
    alone.send(
        0,
        b"".join(map(command, ([b"MULTI"], [b"XADD", b"a", b"1-1", b"f", b"v"], [b"GET", b"x"], [b"EXEC"]))),
    )
    assert careful == [[b"EXEC"]]
    assert alone.clients[0].transport.written == [b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$3\r\n1-1\r\n$-1\r\n"]


def test_a_transaction_queues_and_runs_what_came_together_together(monkeypatch):
    alone = Alone()
    dispatcher = alone.server.dispatcher
    alone.send(0, command([b"XADD", b"a", b"*", b"f", b"v"]))
    entry = dispatcher.find([b"XADD"])
    monkeypatch.setattr(entry, "handler", None)
    monkeypatch.setattr(dispatcher, "_queue", None)
    adds = [[b"XADD", b"a", b"*", b"f", b"v"]] * 40
    alone.propagated.clear()
    alone.send(0, b"".join(map(command, [[b"MULTI"], *adds, [b"EXEC"]])))
    assert entry.calls == 41
    propagated = b"".join(alone.propagated)
    assert propagated.startswith(command([b"MULTI"]) + b"*5\r\n$4\r\nXADD\r\n")
    assert propagated.endswith(command([b"EXEC"]))
    assert propagated.count(b"XADD") == 40


def test_a_transaction_over_the_query_buffer_limit_closes_the_connection_where_it_crosses_it():
    alone = Alone()
    alone.server.config.client_query_buffer_limit = 1 << 20
    big = [b"SET", b"k", b"x" * 400_000]
    for words in [[b"MULTI"], big, big]:
        alone.send(0, command(words))
    small = command([b"SET", b"k", b"x" * 20_000])
    alone.clients[0].parser.max_query_buffer = 1 << 30
    alone.send(0, small * 30)
    assert b"aborted" in alone.clients[0].transport.written
    assert len(alone.clients[0].transaction.commands) == 2 + 13  # the last one was too much


def replayed(batch: list[list[bytes]], *, together: bool) -> tuple[dict[str, object], int]:
    """What a server holds after loading commands from a file, and how many of them were run by themselves."""
    alone = Alone()
    server = alone.server
    server.propagation.disconnect(alone.propagated.append)
    client = LoaderClient(server)
    entry = server.dispatcher.find([b"XADD"])
    handler, singly = entry.handler, []
    entry.handler = lambda client, args: singly.append(args) or handler(client, args)
    server.persistence.begin_loading(0)
    if not together:
        entry.batch_handler = None
    replay(server, None, client, batch)
    server.persistence.end_loading()
    return alone.state(), len(singly)


ids = st.builds(
    lambda ms, seq: b"%d-%d" % (ms, seq), st.integers(0, 3), st.integers(0, 12)
) | st.sampled_from(
    [b"7", b"8-*", b"*", b"09-1", b"9-01", b"1-", b"-1", b"18446744073709551615-1", b"99999999999999999999-1"]
)
filed = st.builds(
    lambda verb, key, id_, pair: [verb, key, id_, *pair],
    st.sampled_from([b"XADD", b"xadd"]),
    keys,
    ids,
    pairs,
)
filed_runs = st.builds(
    lambda key, first, number, pair: [
        [b"XADD", key, b"%d-%d" % divmod(at, 5), *pair] for at in range(first, first + number)
    ],
    keys,
    st.integers(1, 40),
    st.integers(SHORTEST_RUN - 1, 300),
    pairs,
)


@given(st.lists(filed.map(lambda one: [one]) | filed_runs | others.map(lambda one: [one]), max_size=8))
def test_a_file_is_loaded_alike_command_by_command_and_in_runs(parts):
    batch = [
        words
        for part in parts
        for words in part
        if words[0] not in {b"NONSENSE", b"XREAD"} and words not in ([b"XADD", b"a", b"*"], [b"GET"])
    ]
    assert replayed(batch, together=True)[0] == replayed(batch, together=False)[0]


def test_a_run_of_xadds_in_a_file_is_run_together():
    batch = [[b"XADD", b"a", b"5-%d" % seq, b"f", b"v"] for seq in range(1000)]
    state, singly = replayed(batch, together=True)
    assert singly < SHORTEST_RUN  # the first one makes the stream
    assert state["streams"][0][b"a"][2] == 1000
