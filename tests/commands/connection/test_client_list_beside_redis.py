"""What CLIENT LIST shows of a client that did this or that: as on the real server of the version."""

import re

import pytest
from differential.pairs import PAIRS

STORIES = [
    "nosuch",
    "GET",
    "CLIENT nosuch",
    "CLIENT",
    "CONFIG|GET x",
    "DEBUG JMAP",
    "SUBSCRIBE x / SET a b",
    "SUBSCRIBE x / SPUBLISH x y",
    "MULTI / SET a b",
    "MULTI / GET",
    "MULTI / WATCH x",
    "MULTI / nosuch x",
    "MULTI / MULTI",
    "MULTI / SET a 1 / EXEC",
    "MULTI / nosuch 1 / GET a / EXEC",
    "MULTI / SET a 1 / nosuch 1 / GET a",
    "MULTI / SUBSCRIBE a",
    "MULTI / SET a 1 / GET / SET a 1 / DISCARD",
    "WATCH a / MULTI / SET a 1 / GET / UNWATCH",
    "WATCH a / MULTI / SET b 1 / other: SET a 2 / SET c 1 / GET c",
    "WATCH a c / other: SET a 2",
    "WATCH a / SUBSCRIBE x / EXEC",
    "WATCH a / EXEC x",
    "AUTH u x / SET a b",
    "AUTH u x / MULTI / SET a b",
    "EVAL 0 0",
    "SELECT 3 / CLIENT SETNAME me / HELLO 3",
    "CLIENT TRACKING ON BCAST",
    "CLIENT NO-EVICT ON",
]


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_client_list_shows_the_last_command_and_the_transaction(mine, real, story, running):
    assert shown(running(mine), story) == shown(running(real), story)


def shown(process, story):
    """The fields of the client that a command or a transaction changes, after a story."""
    with process.wire() as other, process.wire() as wire:
        other.call("FLUSHALL")
        other.call("ACL", "SETUSER", "u", "reset", "on", "nopass", "~*", "+get", "+auth", "+multi")
        number = wire.call("CLIENT", "ID").value
        for step in story.split(" / "):
            who = other if step.startswith("other: ") else wire
            who.call(*step.removeprefix("other: ").split())
        line = other.call("CLIENT", "LIST", "ID", number).value.decode()
    return re.findall(r"(?:flags|db|name|sub|multi|watch|cmd|user|resp)=\S*", line)
