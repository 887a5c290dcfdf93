"""Generated runs of list commands, the same to every server, every reply compared byte for byte."""

from contextlib import ExitStack

import pytest
from differential.pairs import PAIRS
from differential.strategies.commands import Command, fuzz_settings
from differential.strategies.list_commands import LAST_LOOKS, WAITING, list_runs
from hypothesis import given
from hypothesis import strategies as st
from support.servers import ServerProcess, ticking_fast
from support.wire import Node, Wire

MACHINES = [*PAIRS, ("rillet-7.2", "valkey")]


def compare(run: list[Command], mine: list[Node], real: list[Node]) -> None:
    for at, (got, wanted) in enumerate(zip(mine, real, strict=True)):
        if got != wanted:
            played = "\n".join(f"    {' '.join(words)}" for words in run[: at + 1])
            pytest.fail(f"after\n{played}\n  real   {wanted}\n  rillet {got}", pytrace=False)


def play(wire: Wire, run: list[Command]) -> list[Node]:
    wire.call("FLUSHALL")
    return [wire.call(*command) for command in run]


@pytest.mark.parametrize(("rillet", "real"), MACHINES)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_run_of_list_commands_is_answered_alike(running, real, rillet, protocol):
    with running(real).wire(protocol) as theirs, running(rillet).wire(protocol) as ours, ticking_fast(theirs):

        @fuzz_settings(15)
        @given(list_runs(40))
        def check(run):
            everything = run + LAST_LOOKS
            compare(everything, play(ours, everything), play(theirs, everything))

        check()


def play_with_waiters(server: ServerProcess, waiting: list[Command], run: list[Command]) -> list[Node]:
    """What those got who waited (a null: nothing), then the replies to the run."""
    with ExitStack() as stack:
        wire = stack.enter_context(server.wire(2))
        wire.call("FLUSHALL")
        waiters = []
        for command in waiting:
            waiter = stack.enter_context(server.wire(2))
            waiters.append((waiter, waiter.call("CLIENT", "ID").value))
            waiter.send(*command)
            # The second PING is read in a later round of the event loop than the waiter's command.
            wire.call("PING")
            wire.call("PING")
        replies = [wire.call(*command) for command in run]
        for _, client in waiters:
            wire.call("CLIENT", "UNBLOCK", client)
        return [waiter.read() for waiter, _ in waiters] + replies


@pytest.mark.parametrize(("rillet", "real"), MACHINES)
def test_those_who_wait_are_served_alike(running, real, rillet):
    @fuzz_settings(20)
    @given(waiting=st.lists(WAITING, min_size=1, max_size=5), run=list_runs(10))
    def check(waiting, run):
        everything = run + LAST_LOOKS
        theirs = play_with_waiters(running(real), waiting, everything)
        ours = play_with_waiters(running(rillet), waiting, everything)
        compare([["waiting:", *command] for command in waiting] + everything, ours, theirs)

    check()
