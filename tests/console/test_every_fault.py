"""Actions of the console with a lost command, or a lost reply, at each command that they send: never twice, never by half."""

import asyncio

import pytest
from support.programs.console import deliver, good_of

from rillet.testing import every_fault

ALL = ["1-0", "2-0", "3-0"]


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
        deliver(client, 3)
        place = {
            "key": "orders",
            "group": "billing",
            "to": "orders:dead" if name == "deadletter" else "Alice",
        }
        good = asyncio.run(good_of(server.url, name, place | typed))
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
