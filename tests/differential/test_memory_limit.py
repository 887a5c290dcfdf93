"""What is refused over ``maxmemory`` and with which words: Rillet against redis-server 7.0.15 and Valkey 9.1.2."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from rillet.commands.spec.command import REGISTRY
from rillet.server.families import load_all

if TYPE_CHECKING:
    from support.servers import ServerProcess

load_all()

OOM = b"OOM command not allowed when used memory > 'maxmemory'."
SHORT, PLENTY = ("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")
SET = "return redis.call('set','x','1')"
GET = "return redis.call('get','x')"
LIBRARY = (
    "#!lua name=l\n"
    f"redis.register_function('f',function() {SET} end) "
    f"redis.register_function{{function_name='fo',callback=function() {SET} end,flags={{'allow-oom'}}}} "
    f"redis.register_function{{function_name='fr',callback=function() {GET} end,flags={{'no-writes'}}}}"
)


def sha1(body: str) -> str:
    return hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()


# Each is a story: words, or SHORT and PLENTY, which another client sends.
STORIES: dict[str, list[tuple[str, ...]]] = {
    "plain": [("SET", "a", "1"), SHORT, ("SET", "b", "1"), ("GET", "a"), ("DEL", "a"), ("PING",)],
    "refused when queued": [
        SHORT, ("MULTI",), ("SET", "x", "1"), PLENTY, ("EXEC",), ("GET", "x"), ("SET", "y", "1"),
    ],
    "queued before": [
        ("MULTI",), ("GET", "a"), ("SET", "b", "2"), SHORT, ("EXEC",), ("GET", "b"), ("EXEC",),
    ],
    "queued reads": [("MULTI",), ("GET", "a"), SHORT, ("EXEC",)],
    "discard": [("MULTI",), ("SET", "b", "3"), SHORT, ("DISCARD",), ("GET", "b")],
    "multi": [SHORT, ("MULTI",), ("GET", "a"), ("PING",), ("UNWATCH",), ("EXEC",)],
    "multi ended": [SHORT, ("MULTI",), ("DISCARD",), ("MULTI",), ("RESET",), ("PING",)],
    "script": [SHORT, ("EVAL", SET, "0"), ("EVAL", GET, "0"), ("EVAL", SET.replace("call", "pcall"), "0")],
    "script that wrote": [
        ("SET", "a", "1"), SHORT, ("EVAL", f"redis.call('del','a') {SET}", "0"), ("GET", "x"),
    ],
    "script that says nothing of itself": [SHORT, ("EVAL", f"#!lua\n{GET}", "0"), ("EVAL_RO", f"#!lua\n{GET}", "0")],
    "script with flags": [
        SHORT, ("EVAL", f"#!lua flags=allow-oom\n{SET}", "0"), ("EVAL", f"#!lua flags=no-writes\n{GET}", "0"),
        ("EVAL", f"#!lua flags=no-writes\n{SET}", "0"), ("EVAL", "#!lua flags=odd\nreturn 1", "0"),
    ],
    "script by its sum": [
        ("SCRIPT", "LOAD", f"#!lua\n{GET}"), ("SCRIPT", "LOAD", GET), SHORT,
        ("EVALSHA", sha1(f"#!lua\n{GET}"), "0"), ("EVALSHA", "0" * 40, "0"),
        ("EVALSHA", sha1(GET), "0"),
    ],
    "script in a transaction": [("MULTI",), ("EVAL", SET, "0"), SHORT, ("EXEC",)],
    "script with a shebang in a transaction": [("MULTI",), ("EVAL", f"#!lua\n{SET}", "0"), SHORT, ("EXEC",)],
    "script refused when queued": [SHORT, ("MULTI",), ("EVAL", f"#!lua\n{SET}", "0"), PLENTY, ("EXEC",)],
    "functions": [
        ("FUNCTION", "LOAD", LIBRARY), SHORT, ("FCALL", "f", "0"), ("FCALL", "fo", "0"), ("FCALL", "fr", "0"),
        ("FCALL_RO", "fr", "0"), ("FCALL_RO", "f", "0"), ("FCALL", "none", "0"),
        ("FUNCTION", "LOAD", "REPLACE", LIBRARY), ("FUNCTION", "DELETE", "l"),
    ],
}  # fmt: skip


def play(server: ServerProcess, story: list[tuple[str, ...]]) -> list[Any]:
    with server.wire() as wire, server.wire() as other:
        for words in (PLENTY, ("FLUSHALL",), ("FUNCTION", "FLUSH")):
            other.call(*words)
        try:
            return [(other if words in {SHORT, PLENTY} else wire).call(*words).plain() for words in story]
        finally:
            other.call(*PLENTY)


@pytest.mark.parametrize("title", STORIES)
def test_a_story_over_the_limit_is_played_as_by_redis_7_0(running, title):
    assert play(running("rillet-7.0"), STORIES[title]) == play(running("redis7"), STORIES[title])


# What Valkey says of failed scripts and functions differs anyway.
@pytest.mark.parametrize(
    "title", [title for title in STORIES if "script" not in title and title != "functions"]
)
def test_a_story_over_the_limit_is_played_as_by_valkey(running, title):
    assert play(running("rillet"), STORIES[title]) == play(running("valkey"), STORIES[title])


def refused(server: ServerProcess, names: list[str]) -> set[str]:
    """Which commands answer OOM when they come with as few words as they take."""
    found = set()
    with server.wire() as other:
        other.call(*SHORT)
        try:
            for name in names:
                with server.wire() as wire:
                    words = [*name.split("|"), *["1"] * (abs(REGISTRY[name].arity) - len(name.split("|")))]
                    if wire.call(*words).value == OOM:
                        found.add(name)
        finally:
            other.call(*PLENTY)
    return found


# They end the connection or the server, or wait.
NOT_ASKED = {
    "shutdown",
    "quit",
    "sync",
    "psync",
    "monitor",
    "debug",
    "failover",
    "replicaof",
    "slaveof",
    "config|set",
}


def test_the_same_commands_are_refused_as_by_redis_7_0(running):
    with running("redis7").wire() as wire:
        known = {name.decode() for name in wire.call("COMMAND", "LIST").plain()}
    names = sorted(
        name for name, command in REGISTRY.items() if command.is_served and name in known - NOT_ASKED
    )
    assert len(names) > 250
    theirs = refused(running("redis7"), names)
    assert len(theirs) > 50
    assert refused(running("rillet-7.0"), names) == theirs


# As redis-server 8.10.2 answered, 2026-11.
def test_subscriptions_are_refused_as_by_redis_8_10(running):
    subscriptions = {"subscribe", "psubscribe", "ssubscribe"}
    others = ["unsubscribe", "hexpire", "hpexpireat", "publish"]
    assert refused(running("rillet"), [*sorted(subscriptions), *others]) == subscriptions
