"""The one state of a client: whatever happens to it, the state changes only along ``LEGAL``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import Alone
from support.thorough import examples
from support.wire import commands

from rillet.commands.runtime.client import Client
from rillet.commands.runtime.state import State
from rillet.protocol.replies import command

_RUNNING = frozenset(state for state in State if state.runs)
_AFTER_A_WAIT = _RUNNING | {State.CONGESTED, State.CLOSING}
# The states that may follow each state. A wait ends before another begins, and nothing follows CLOSING.
LEGAL = {
    **dict.fromkeys(_RUNNING, frozenset(State)),
    **dict.fromkeys((State.BLOCKED, State.POSTPONED, State.CONGESTED, State.AWAITING_TURN), _AFTER_A_WAIT),
    State.CLOSING: frozenset(),
}

WORDS = [[word.encode() for word in words] for words in commands("""
    PING; XADD s * f v; XREAD BLOCK 0 STREAMS s $; BLPOP l 0; LPUSH l 1; MULTI; EXEC; DISCARD; CLIENT PAUSE 1000
    CLIENT PAUSE 1000 WRITE; CLIENT UNPAUSE; CLIENT UNBLOCK 2 ERROR; CLIENT KILL ID 3; CLIENT REPLY SKIP
    CLIENT NO-TOUCH ON; CLIENT TRACKING ON; CLIENT TRACKING OFF; HELLO 3; SUBSCRIBE c; UNSUBSCRIBE; PUBLISH c m
    MONITOR; RESET; QUIT
""")]  # fmt: skip
who = st.integers(0, 2)
steps = st.lists(
    st.tuples(st.just("send"), who, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    | st.tuples(
        st.sampled_from(
            ["pause_writing", "resume_writing", "eof_received", "wait for a job", "lose", "turn", "time"]
        ),
        who,
        st.none(),
    ),
    max_size=30,
)


def act(alone: Alone, what: str, number: int, words: list[list[bytes]] | None, jobs: list[bool]) -> None:
    client, server = alone.clients[number], alone.server
    if what == "send":
        client.data_received(b"".join(map(command, words or [])))
    elif what == "wait for a job":
        if client.state.runs:
            server.background_jobs.run_before(client, lambda: False)
            jobs.append(True)
    elif what == "lose":
        client.connection_lost(None)
    elif what == "turn":
        alone.turn()
    elif what == "time":
        server.background_jobs._run()
        server.clock.advance(2000)
        server.virtual_time.moved()
    else:
        getattr(client, what)()


@settings(max_examples=examples(150))
@given(steps, st.booleans())
def test_a_state_changes_only_as_declared_and_waits_end(script, hungry):
    slot = Client.__dict__["state"]
    states: dict[Client, State] = {}

    def change(client: Client, new: State) -> None:
        old = states.get(client)
        assert old is None or new is old or new in LEGAL[old], (old, new)
        states[client] = new
        slot.__set__(client, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "state", property(slot.__get__, change))
        alone = Alone()
        server = alone.server
        if hungry:
            server.turns.slice = 0  # every command ends a turn
        for what, number, words in script:
            act(alone, what, number, words, [])
            for client in alone.clients:
                state = client.state
                assert (state is State.BLOCKED) == (client in server.blocking.waiters)
                assert (state is State.AWAITING_TURN) == (
                    client in server.turns.waiting and state is not State.CLOSING
                )
                if state is not State.CLOSING:
                    mode = client.mode
                    client.update_state()
                    assert client.mode is mode, "what decides the mode changed, but not the mode"
                    assert client.state is (mode if state.runs else state)
                if state.runs:
                    assert not client.is_congested
        # Once nothing holds it, no client waits.
        for client in alone.clients:
            client.resume_writing()
        server.pause.end()
        for client in alone.clients:
            server.blocking.unblock(client)
        while alone.turn() or server.background_jobs._jobs:
            server.background_jobs._run()
            for client in list(server.blocking.waiters):
                server.blocking.unblock(client)
            server.pause.end()
        assert all(client.state.runs or client.state is State.CLOSING for client in alone.clients)
