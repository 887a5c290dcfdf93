"""Fair turns: how much one client may do before others have their turn, counted and not timed."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import Alone, Wire
from support.live import LiveServer, eventually
from support.thorough import examples
from support.wire import encode_command

from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.protocol.replies import command
from rillet.server.execution.turns import NEVER, SLICE
from rillet.server.net.connection import Connection

INLINE, RESP = b"PING\r\n", command([b"PING"])
READ = 256_000  # what uvloop reads at once
OVER = 0  # every slice is over as soon as it is looked at the clock


def hungry(slice_=OVER):
    alone = Alone()
    alone.server.turns.slice = slice_
    if slice_ != SLICE:
        alone.server.slow_nanoseconds = NEVER  # however busy the machine is
    return alone


def pongs(client):
    held = [data for each, data in client.server.replies.held if each is client]
    return b"".join([*client.transport.written, *held]).count(b"+PONG\r\n")


def drain(alone):
    while alone.turn():
        pass


@pytest.mark.parametrize("ping", [INLINE, RESP])
def test_a_slice_that_is_over_ends_after_a_few_hundred_commands(ping):
    alone = hungry()
    one = alone.clients[0]
    many = READ // len(ping)
    one.data_received(ping * many)
    assert 0 < pongs(one) <= 128
    turns = 0
    while pongs(one) < many:
        before = pongs(one)
        assert alone.turn()
        assert 0 < pongs(one) - before <= 128
        turns += 1
    assert turns >= many // 128 - 1


def test_little_is_parsed_ahead():
    alone = hungry()
    one = alone.clients[0]
    one.data_received(INLINE * 40_000)
    assert len(one.backlog) <= 256
    one.data_received(RESP * 10_000)
    assert len(one.backlog) <= 256


def test_a_second_client_has_its_turn_between_the_slices_of_the_first():
    alone = hungry()
    one, two = alone.clients[:2]
    one.data_received(INLINE * 10_000)
    for number in range(1, 11):
        alone.turn()
        two.data_received(INLINE)
        assert pongs(two) == number
    assert pongs(one) <= 11 * 128


def test_clients_that_are_all_busy_share_a_turn_of_the_loop():
    alone = hungry()
    for client in alone.clients:
        client.data_received(RESP * 10_000)
    assert [pongs(client) for client in alone.clients] == [128] * 4
    for done in range(1, 9):
        alone.turn()  # one slice, for one client
        assert sum(map(pongs, alone.clients)) == (4 + done) * 128
    assert [pongs(client) for client in alone.clients] == [128 * 3] * 4


def test_reading_pauses_while_there_is_a_backlog():
    alone = hungry()
    one = alone.clients[0]
    one.data_received(INLINE * 1000)
    assert one.transport.reads, "a client that waits for its replies costs no system call"
    one.data_received(INLINE * 1000)
    assert not one.transport.reads
    drain(alone)
    assert one.transport.reads
    assert pongs(one) == 2000


def test_reads_are_counted_through_pauses():
    alone = hungry()
    one = alone.clients[0]
    for number in range(1, 6):
        one.data_received(INLINE * 1000)
        assert one.reads == number
    drain(alone)
    assert one.reads == 5


def test_reads_that_follow_each_other_in_one_turn_do_not_each_get_a_slice():
    alone = hungry(NEVER)
    one = alone.clients[0]
    one.data_received(RESP * (READ // len(RESP)))  # there was time for all of it
    before = pongs(one)
    one.data_received(RESP * (READ // len(RESP)))  # libuv would do this 31 times
    assert pongs(one) == before
    assert not one.transport.reads
    drain(alone)
    assert pongs(one) == 2 * before
    assert one.transport.reads


def test_a_long_value_is_read_on_without_a_pause():
    alone = hungry(NEVER)
    one = alone.clients[0]
    data = command([b"SET", b"k", b"x" * (5 * READ)])
    for at in range(0, len(data), READ):
        one.data_received(data[at : at + READ])
        assert one.transport.reads
        assert not one.unparsed, "what belongs to one argument need not wait"
    assert b"".join(one.transport.written) == b"+OK\r\n"


def test_a_pipeline_of_a_thousand_is_one_slice():
    alone = hungry(NEVER)
    one = alone.clients[0]
    for words in (
        [b"PING"],
        [b"SET", b"key:1234", b"value" * 4],
        [b"XADD", b"s", b"*", b"field", b"v" * 100],
    ):
        one.transport.written.clear()
        one.data_received(command(words) * 1000)
        assert not alone.turns
        assert len(one.transport.written) == 1
        assert one.transport.reads


def test_one_long_command_ends_a_slice(monkeypatch):
    alone = hungry(SLICE)
    one = alone.clients[0]
    now = [0]
    for part in ("execution.call", "execution.fast_path", "execution.dispatcher", "net.connection"):
        monkeypatch.setattr(f"rillet.server.{part}.perf_counter_ns", lambda: now[0])
    entry = alone.server.dispatcher.find([b"PING"])
    real = entry.handler

    def slow(client, args):
        now[0] += SLICE // 2 + 1
        return real(client, args)

    monkeypatch.setattr(entry, "handler", slow)
    one.data_received(RESP * 100)
    assert pongs(one) == 2
    drain(alone)
    assert pongs(one) == 100


@pytest.mark.parametrize(
    "mode", [[b"CLIENT", b"NO-TOUCH", b"ON"], [b"CLIENT", b"TRACKING", b"ON"], [b"HELLO", b"3"]]
)
def test_a_client_that_is_not_plain_has_no_longer_slice(mode):
    alone = hungry()
    one = alone.clients[0]
    alone.send(0, command(mode))
    one.data_received(RESP * 5000)
    assert pongs(one) <= 128


def test_a_stranger_has_no_longer_slice():
    alone = Alone()
    alone.server.config.set([(b"requirepass", b"secret")])
    alone.server.turns.slice = OVER
    stranger = Connection(alone.server, unix_socket=True)
    stranger.connection_made(Wire())
    # More refusals than these would be more unread bytes than a stranger may have.
    stranger.data_received(INLINE * 400 + b"AUTH secret\r\n" + RESP * 5000)
    assert b"".join(stranger.transport.written).count(b"-NOAUTH") == 1
    drain(alone)
    replies = b"".join(stranger.transport.written)
    assert replies.count(b"-NOAUTH") == 400
    assert replies.endswith(b"+OK\r\n" + b"+PONG\r\n" * 5000)


def test_what_a_blocked_client_sends_is_not_parsed_but_limited():
    alone = hungry()
    one, two = alone.clients[:2]
    one.data_received(command([b"BLPOP", b"list", b"0"]))
    for _ in range(4):
        one.data_received(INLINE * 40_000)
        assert not one.backlog
        assert one.transport.reads, "its end has to be seen"
    assert one.unparsed_bytes == 4 * 6 * 40_000
    alone.send(1, command([b"RPUSH", b"list", b"x"]))
    assert pongs(one) == 160_000
    assert two.transport.written == [b":1\r\n"]
    one.data_received(command([b"BLPOP", b"list", b"0"]))
    alone.server.config.client_query_buffer_limit = 1 << 20
    for _ in range(5):
        one.data_received(INLINE * 40_000)
    assert one.transport.written[-1] == b"aborted"


def test_a_client_that_sends_on_while_it_waits_for_its_turn_is_held_back_not_closed():
    alone = hungry()
    one = alone.clients[0]
    sent = 0
    for _ in range(50):
        while one.transport.reads:
            one.data_received(INLINE * 40_000)
            sent += 40_000
        assert one.unparsed_bytes <= 3 * READ
        alone.turn()
    drain(alone)
    assert pongs(one) == sent
    assert b"aborted" not in one.transport.written


def test_a_client_that_hangs_up_gets_the_replies_to_all_that_it_sent():
    alone = hungry()
    one = alone.clients[0]
    one.data_received(INLINE * 5000)
    one.eof_received()
    drain(alone)
    assert pongs(one) == 5000
    assert one.transport.written[-1] == b"closed"


def test_a_protocol_error_follows_the_replies_to_what_came_before_it():
    alone = hungry()
    one = alone.clients[0]
    one.data_received(INLINE * 5000 + b"ECHO 'a\r\n" + INLINE * 5000)
    one.data_received(INLINE)
    drain(alone)
    replies = b"".join(one.transport.written)
    assert pongs(one) == 5000
    assert replies.endswith(b"+PONG\r\n-ERR Protocol error: unbalanced quotes in request\r\nclosed")


def test_replies_that_pile_up_end_a_slice():
    alone = hungry(NEVER)
    one = alone.clients[0]
    alone.send(0, command([b"SET", b"big", b"x" * 100_000]))
    one.transport.written.clear()
    one.data_received(command([b"GET", b"big"]) * 2000)
    assert 1 << 20 < len(b"".join(one.transport.written)) < 20 << 20
    one.pause_writing()
    drain(alone)
    before = len(one.transport.written)
    assert not alone.turn()
    assert len(one.transport.written) == before
    one.resume_writing()
    drain(alone)
    assert b"".join(one.transport.written).count(b"$100000\r\n") == 2000


# The same as without slices

keys = st.sampled_from([b"a", b"b"])
commands = st.one_of(
    st.just([b"PING"]),
    st.builds(lambda key: [b"RPUSH", key, b"x"], keys),
    st.builds(lambda key: [b"BLPOP", key, b"0"], keys),
    st.builds(lambda key: [b"INCR", b"n" + key], keys),
    st.sampled_from([
        [b"MULTI"], [b"EXEC"], [b"CLIENT", b"REPLY", b"SKIP"], [b"CLIENT", b"REPLY", b"OFF"], [b"CLIENT", b"REPLY", b"ON"],
        [b"SUBSCRIBE", b"news"], [b"UNSUBSCRIBE"], [b"PUBLISH", b"news", b"hello"], [b"HELLO", b"3"],
        [b"CLIENT", b"TRACKING", b"ON"], [b"XADD", b"s", b"*", b"f", b"v"], [b"AUTH", b"wrong"], [b"RESET"], [b"ECHO", b"x" * 300],
    ]),
)  # fmt: skip
scripts = st.lists(st.tuples(commands, st.booleans()), max_size=30).map(
    lambda lines: b"".join(
        b" ".join(words) + b"\n" if inline and b"" not in words else command(words) for words, inline in lines
    )
)
ends = st.sampled_from([b"", b"", b"*x\r\n", b"ECHO 'a\n", b"QUIT\r\nPING\r\n"])


@settings(max_examples=examples(150))
@given(scripts, ends, st.lists(st.integers(0, 2000), max_size=6), st.integers(1, 3), st.integers(1, 60))
def test_whatever_is_sent_the_replies_are_those_of_one_long_slice(data, end, cuts, slice_, piece):
    data += end
    whole = Alone()
    whole.send(0, data)
    cut = hungry()
    cut.server.tuning = ServerTuning(slice_commands=slice_)
    cut.server.parsed_bytes = piece
    places = sorted({at % (len(data) + 1) for at in cuts})
    for start, stop in zip([0, *places], [*places, len(data)], strict=True):
        cut.clients[0].data_received(data[start:stop])
    drain(cut)
    expected, found = whole.state(), cut.state()
    for name in ("replies", "propagated", "counters", "commands", "calls", "clients"):
        assert found[name] == expected[name], name


# With sockets


@pytest.mark.parametrize("appendonly", [False, True], ids=["memory", "aof"])
def test_sixteen_megabytes_in_one_go_are_all_run(appendonly):
    with LiveServer(appendonly=appendonly) as server, server.wire() as wire, server.wire() as other:
        server.inside.turns.slice = SLICE // 4
        number = wire.call("CLIENT", "ID").plain()
        side = server.inside.clients[number]
        many = 100_000
        data = b"".join(encode_command("SET", f"key:{at}", "x" * 100) for at in range(many))
        most = 0
        wire._socket.settimeout(0.05)
        sent, replies = 0, b""
        while len(replies) < 5 * many:
            with contextlib.suppress(TimeoutError):
                if sent < len(data):
                    sent += wire._socket.send(data[sent : sent + (1 << 20)])
            most = max(most, side.unparsed_bytes)
            with contextlib.suppress(TimeoutError):
                replies += wire._socket.recv(1 << 20)
        assert replies == b"+OK\r\n" * many
        assert most <= 3 * READ
        assert other.call("DBSIZE").plain() == many
        eventually(lambda: side.reads)
