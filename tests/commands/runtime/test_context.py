"""ServerContext: the fake servers of these tests offer what the protocol declares, and nothing else."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from support.fake_server import FakeServer
from support.wired_server import WiredServer

from rillet.commands.acl.log import AclLog
from rillet.commands.connection.tracking import TrackingTable
from rillet.commands.pubsub.registry import PubSub
from rillet.commands.runtime import context
from rillet.commands.runtime.context import ServerContext, ServerInternals

COMMANDS = Path(__file__).parents[3] / "commands"
ABOUT_THE_SERVER = {"acl", "admin", "connection", "debug", "replication", "scripting", "transactions"}
PARTS = (AclLog, PubSub, TrackingTable)
TOOLS = {"advance", "connect", "disconnect", "events", "pauses"}  # for the tests themselves
PROTOCOLS = {
    "propagation": context.Propagation,
    "blocking": context.Blocking,
    "pause": context.Pause,
    "calls": context.Calls,
    "log": context.Log,
    "background_jobs": context.Jobs,
    "clock": context.Clock,
}


def members(protocol: type) -> set[str]:
    return set(protocol.__annotations__) | {name for name in vars(protocol) if not name.startswith("_")}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_a_fake_server_has_all_that_handlers_of_data_may_use(server):
    assert members(ServerContext) <= public(server)


def test_handlers_of_data_use_no_internals():
    users = {
        path.relative_to(COMMANDS)
        for path in COMMANDS.rglob("*.py")
        if "server.internals." in path.read_text(encoding="utf-8")
    }
    others = {path.as_posix() for path in users if path.parts[0] not in ABOUT_THE_SERVER}
    assert others <= {"keys/migrate.py"}  # it connects to another server


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_a_fake_server_has_no_attribute_that_handlers_may_not_use(server):
    parts = {name for name, value in vars(server).items() if type(value) in PARTS}
    assert public(server) - parts - TOOLS <= members(ServerContext) | members(ServerInternals)


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_the_directives_of_a_fake_server_are_declared(server):
    assert public(server.config) <= members(context.Settings)
    assert public(server.stats) <= members(context.Stats)


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
@pytest.mark.parametrize("concern", PROTOCOLS)
def test_methods_of_a_fake_take_the_parameters_that_the_protocol_declares(server, concern):
    fake, protocol = getattr(server, concern, None), PROTOCOLS[concern]
    for name in public(fake) & members(protocol):
        if inspect.isfunction(declared := vars(protocol).get(name)):
            wanted = list(inspect.signature(declared).parameters)[1:]
            assert list(inspect.signature(getattr(fake, name)).parameters) == wanted, name
