"""Actions of the console with a lost command, or a lost reply, at each command that they send: never twice, never by half."""

import asyncio

import pytest

from rillet.console.actions import ACTIONS, plan, run
from rillet.console.connection import GoneError, Link
from rillet.testing import every_fault

ALL = ["1-0", "2-0", "3-0"]


async def outcome(server, name, typed):
    """Whether the console says that it went well; None where the server was gone."""
    async with Link(server.url) as link:
        link.read_only = False
        try:
            return (await run(link, plan(ACTIONS[name], {"key": "orders", "group": "billing", **typed}))).good
        except GoneError:
            return None


def held(server, consumer=None):
    pending = server.stream("orders").group("billing").pending
    return [entry.id for entry in pending if consumer in {None, entry.consumer}]


@pytest.mark.parametrize("typed", [{"id": "1-0 2-0 3-0"}, {"all": "1", "fit": "3"}], ids=["chosen", "all"])
@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("claim", ("XCLAIM",)), ("ack", ("XACK",)), ("deadletter", ("EVAL",)), ("replay", ("EVAL",)),
        ("giveback", ("XNACK",)),
    ],
)  # fmt: skip
def test_an_action_is_done_once_or_not_at_all_and_what_is_said_of_it_is_true(name, commands, typed):
    def story(server):
        client = server.client()
        client.xgroup_create("orders", "billing", "0", mkstream=True)
        for number in range(1, 4):
            client.xadd("orders", {"n": number}, f"{number}-0")
        client.xreadgroup("billing", "Bob", {"orders": ">"})
        good = asyncio.run(
            outcome(server, name, {"to": "orders:dead" if name == "deadletter" else "Alice"} | typed)
        )
        added = server.stream("orders").entries[3:]
        dead = server.stream("orders:dead").entries if client.exists("orders:dead") else []
        done = {
            "claim": held(server, "Alice"),
            "ack": [entry for entry in ALL if entry not in held(server)],
            "deadletter": [entry.fields["origin-id"] for entry in dead],
            "replay": [str(entry.fields["n"]) + "-0" for entry in added],
            "giveback": [entry for entry in ALL if entry not in held(server, "Bob")],
        }[name]
        assert done == sorted(set(done)), "twice"
        if name == "deadletter":
            assert sorted(done + held(server)) == ALL
        if good:
            assert done == ALL

    every_fault(*commands)(story)()
