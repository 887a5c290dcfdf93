"""ServerContext: the fake servers of these tests offer what the protocol declares, and nothing else."""

from __future__ import annotations

import inspect

import pytest
from support.fake_server import FakeServer
from support.wired_server import WiredServer

from rillet.commands.acl.log import AclLog
from rillet.commands.connection.tracking import TrackingTable
from rillet.commands.pubsub.registry import PubSub
from rillet.commands.runtime import calling, context, propagation
from rillet.commands.runtime.context import ServerContext

PARTS = (AclLog, PubSub, TrackingTable)
TOOLS = {"advance", "connect", "disconnect", "events", "pauses"}  # for the tests themselves
PROTOCOLS = {
    "propagation": propagation.Propagation,
    "blocking": context.Blocking,
    "pause": calling.Pause,
    "calls": calling.Calls,
    "log": context.Log,
    "background_jobs": context.Jobs,
    "clock": context.Clock,
}


def members(protocol: type) -> set[str]:
    return set(protocol.__annotations__) | {name for name in vars(protocol) if not name.startswith("_")}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_wired_server_lacks_only_what_scripts_and_migrate_ask():
    assert members(ServerContext) - public(WiredServer()) == {
        "disk_error",
        "dispatcher",
        "eviction",
        "migrations",
        "needs_all_checks",
        "replication",
        "snapshot_error",
    }


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_a_fake_server_has_no_attribute_that_handlers_may_not_use(server):
    parts = {name for name, value in vars(server).items() if type(value) in PARTS}
    assert public(server) - parts - TOOLS <= members(ServerContext)


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_the_directives_of_a_fake_server_are_declared(server):
    assert public(server.config) <= members(context.Settings)
    assert public(server.stats) <= members(calling.Stats)


@pytest.mark.parametrize("server", [FakeServer(), WiredServer()], ids=["fake", "wired"])
@pytest.mark.parametrize("concern", PROTOCOLS)
def test_methods_of_a_fake_take_the_parameters_that_the_protocol_declares(server, concern):
    fake, protocol = getattr(server, concern, None), PROTOCOLS[concern]
    for name in public(fake) & members(protocol):
        if inspect.isfunction(declared := vars(protocol).get(name)):
            wanted = list(inspect.signature(declared).parameters)[1:]
            assert list(inspect.signature(getattr(fake, name)).parameters) == wanted, name
