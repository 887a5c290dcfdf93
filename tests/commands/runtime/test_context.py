"""The fake servers of these tests offer nothing that the real one does not have; commands import no server."""

import inspect

import grimp
import pytest
from support.fake_server import FakeServer
from support.wired_server import WiredServer

from rillet.server.config.config import Config
from rillet.server.server import Server

# For the tests themselves
TOOLS = set(
    "advance connect databases disconnect events lines observations pauses postponed ran recheck_at still_blocked take unblocked".split()
)


@pytest.fixture(scope="module")
def real():
    return Server(Config(), quiet=True)


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")} - TOOLS


def parts(server: object) -> list[str]:
    return [
        name
        for name in public(server)
        if type(getattr(server, name)).__module__.startswith(("support", "types"))
    ]


@pytest.mark.parametrize("fake", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_a_fake_server_offers_nothing_that_the_real_one_lacks(fake, real):
    assert public(fake) <= public(real)
    for part in parts(fake):
        assert public(getattr(fake, part)) <= public(getattr(real, part)), part


@pytest.mark.parametrize("fake", [FakeServer(), WiredServer()], ids=["fake", "wired"])
def test_methods_of_a_fake_take_the_parameters_of_the_real_ones(fake, real):
    for part in parts(fake):
        for name in public(getattr(fake, part)):
            method = getattr(getattr(fake, part), name)
            if inspect.ismethod(method):
                wanted = list(inspect.signature(getattr(getattr(real, part), name)).parameters)
                taken = list(inspect.signature(method).parameters)
                assert taken == wanted[: len(taken)], (part, name)


def test_commands_import_nothing_of_the_server_while_it_runs():
    graph = grimp.build_graph("rillet", exclude_type_checking_imports=True, cache_dir=None)
    for module in graph.find_descendants("rillet.commands"):
        imported = graph.find_modules_directly_imported_by(module)
        assert not [each for each in imported if each.startswith("rillet.server")], module
