"""Every command in every state of a server: run, refused with the same words, or held, as real servers do."""

import re

import pytest
from differential.states import STATES, commands
from support.background import at_once
from support.servers import start_server

LIBRARY = """#!lua name=l
redis.register_function{function_name='f', callback=function() return redis.call('get', 'a') end, flags={'allow-stale', 'no-writes'}}
redis.register_function('g', function() return 1 end)
"""
CALLS = [
    *(("EVAL", f"{line}{body}", "0") for line in ("", "#!lua\n", "#!lua flags=allow-stale\n", "#!lua flags=no-writes\n",
      "#!lua flags=allow-stale,no-writes\n") for body in ("return 1", "return redis.call('get','a')", "return redis.pcall('get','a').err",
      "return redis.call('info','x')", "return redis.call('set','a','1')", "return redis.call('publish','c','m')")),
    ("EVAL_RO", "return 1", "0"), ("EVALSHA", "a" * 40, "0"), ("FCALL", "f", "0"), ("FCALL_RO", "f", "0"), ("FCALL", "g", "0"),
    ("FCALL", "nosuch", "0"), ("GET", "a"), ("PING",),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
@pytest.mark.parametrize("state", STATES)
def test_commands_in_a_state_are_run_refused_or_held_as_the_real_server_does(state, mine, real):
    lines = commands("7.0" if real == "redis7" else "8.10")
    got, wanted = at_once(lambda kind: STATES[state](kind, lines), (mine, real))
    wrong = [
        f"{' '.join(words)!r}: {here}, real: {there}"
        for words, here, there in zip(lines, got, wanted, strict=True)
        if here != there
    ]
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(wrong)


def called_when_stale(kind: str) -> list[str]:
    """What calls of scripts are answered on a stale replica, at once, in MULTI, and to EXEC."""
    with start_server(kind) as server, server.wire() as wire:
        wire.call("SET", "a", "1")
        wire.call("CONFIG", "SET", "replica-serve-stale-data", "no")
        wire.call("FUNCTION", "LOAD", LIBRARY)
        wire.call("REPLICAOF", "127.0.0.1", "1")
        lines = [line for call in CALLS for line in (call, ("MULTI",), call, ("EXEC",))]
        return [f"{line}: {re.sub('[0-9a-f]{40}', '<sha>', str(wire.call(*line)))}" for line in lines]


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_scripts_on_a_stale_replica_are_queued_and_refused_as_by_the_real_server(mine, real):
    assert called_when_stale(mine) == called_when_stale(real)
