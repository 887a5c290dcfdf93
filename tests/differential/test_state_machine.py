"""Generated runs of commands, the same to every server, every reply compared byte for byte."""

from contextlib import ExitStack

import pytest
from differential.as_redis_8 import without_tree
from differential.pairs import PAIRS
from differential.strategies.commands import (
    BEGINNING,
    NODE_ENTRIES,
    STREAMS,
    WAITING,
    fuzz_settings,
    masks_of,
    runs,
)
from hypothesis import given
from hypothesis import strategies as st
from support.masks import Masks
from support.servers import ServerProcess
from support.wire import Node, Wire, encode_command

Command = list[str]

# What every run ends with: all that can be seen of the streams.
LAST_LOOKS: list[Command] = [
    *(["XINFO", "STREAM", key, "FULL", "COUNT", "0"] for key in STREAMS),
    *(["XPENDING", key, group] for key in STREAMS for group in ("g", "h")),
    *(["XRANGE", key, "-", "+"] for key in STREAMS),
    *(["PEXPIRETIME", key] for key in STREAMS),
]


def play(wire: Wire, run: list[Command], pipelined: bool) -> list[Node]:
    """The masked replies of a server, which is emptied first."""
    clear(wire)
    return play_on(wire, run, pipelined)


def clear(wire: Wire) -> None:
    before: list[Command] = [["FLUSHALL"], ["CONFIG", "SET", "stream-node-max-entries", str(NODE_ENTRIES)]]
    for command in before:
        assert wire.call(*command).value == b"OK"


def play_on(wire: Wire, run: list[Command], pipelined: bool) -> list[Node]:
    """The masked replies of a server as it is."""
    if pipelined:
        wire.send_raw(b"".join(encode_command(*command) for command in run))
        replies = [wire.read() for _ in run]
    else:
        replies = [wire.call(*command) for command in run]
    masked = []
    masks = Masks()
    queued: list[Command] = []
    in_transaction = False
    for command, reply in zip(run, replies, strict=True):
        if command == ["EXEC"] and reply.kind == "*" and reply.children is not None:
            inside = [
                masks.apply(part, masks_of(words)) for words, part in zip(queued, reply.children, strict=True)
            ]
            masked.append(Node(reply.kind, reply.header, None, tuple(inside)))
        else:
            masked.append(masks.apply(reply, masks_of(command)))
        if command == ["MULTI"]:
            queued, in_transaction = [], True
        elif command == ["EXEC"]:
            in_transaction = False
        elif in_transaction:
            queued.append(command)
    return masked


def compare(run: list[Command], mine: list[Node], real: list[Node], kind: str) -> None:
    """Reply by reply: nothing is allowed to differ."""
    if kind.startswith("redis8"):
        mine, real = list(map(without_tree, mine)), list(map(without_tree, real))
    for at, (got, wanted) in enumerate(zip(mine, real, strict=True)):
        if got != wanted:
            played = "\n".join(f"    {' '.join(words)}" for words in run[: at + 1])
            pytest.fail(f"after\n{played}\n  {kind}   {wanted}\n  rillet {got}", pytrace=False)


@pytest.fixture
def wires(running):
    """`wires(kind, protocol)`: one connection of each sort, kept for all runs of a test."""
    opened = {}

    def get(kind: str, protocol: int) -> Wire:
        if (kind, protocol) not in opened:
            opened[kind, protocol] = running(kind).wire(protocol)
        return opened[kind, protocol]

    yield get
    for wire in opened.values():
        wire.call("FLUSHALL")
        wire.call("CONFIG", "SET", "stream-node-max-entries", "100")
        wire.close()


def play_with_waiters(
    server: ServerProcess, protocol: int, waiting: list[Command], run: list[Command]
) -> tuple[list[Node], list[Node]]:
    """The replies to a run while other connections wait, and what those got (a null: nothing)."""
    with ExitStack() as stack:
        wire = stack.enter_context(server.wire(protocol))
        clear(wire)
        play_on(wire, BEGINNING, pipelined=True)
        waiters = []
        for command in waiting:
            waiter = stack.enter_context(server.wire(protocol))
            waiters.append((waiter, waiter.call("CLIENT", "ID").value))
            waiter.send(*command)
            # The second PING is read in a later round of the event loop than the waiter's command.
            wire.call("PING")
            wire.call("PING")
        replies = play_on(wire, run, pipelined=False)
        for _, client in waiters:
            wire.call("CLIENT", "UNBLOCK", client)
        got = [waiter.read() for waiter, _ in waiters]
        return replies + play_on(wire, LAST_LOOKS, pipelined=True), got


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_blocked_readers_are_served_as_by_the_real_server(running, mine, real):
    @fuzz_settings(100)
    @given(
        waiting=st.lists(WAITING, min_size=1, max_size=4),
        run=runs(14).map(lambda run: run[len(BEGINNING) :]),
        protocol=st.sampled_from([2, 3]),
    )
    def check(waiting, run, protocol):
        wanted, served = play_with_waiters(running(real), protocol, waiting, run)
        got, got_served = play_with_waiters(running(mine), protocol, waiting, run)
        everything = [["waiting:", *command] for command in waiting] + run + LAST_LOOKS
        compare(everything, got_served + got, served + wanted, real)

    check()


@pytest.mark.parametrize(("mine", "real"), [*PAIRS, ("rillet-7.2", "valkey")])
def test_a_run_of_commands_is_answered_as_by_the_real_server(wires, mine, real):
    @fuzz_settings(200)
    @given(run=runs(), protocol=st.sampled_from([2, 3]), pipelined=st.booleans())
    def check(run, protocol, pipelined):
        run += LAST_LOOKS
        wanted = play(wires(real, protocol), run, pipelined=True)
        compare(run, play(wires(mine, protocol), run, pipelined), wanted, real)

    check()
