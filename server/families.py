"""All families of commands: data commands are in ``commands/``, server commands beside the part that they concern."""

from importlib import import_module
from typing import Final

from ..commands.spec.command import EVERY_MODE, REGISTRY, SENTINEL, load, share_with_sentinels

# Packages; each has its command records in ``specs.py``, and its handlers.
FAMILIES: Final = (
    *"commands.acl commands.bitmaps commands.connection commands.geo commands.hashes commands.hyperloglog".split(),
    *"commands.keys commands.lists commands.pubsub commands.scripting commands.sets commands.sorted_sets".split(),
    *"commands.streams commands.strings commands.transactions server.admin server.cluster.commands".split(),
    *"server.debugging.commands server.persistence.commands server.replication.commands".split(),
    "server.sentinel.commands",
)
_ROOT: Final = __name__.removesuffix(".server.families")
# The commands that a server in sentinel mode answers besides SENTINEL.
_SHARED_WITH_SENTINELS = frozenset(
    "acl auth client command hello info ping psubscribe publish punsubscribe role shutdown subscribe unsubscribe".split()
)


def load_specs() -> None:
    """Import the ``specs.py`` of every family, which registers all commands."""
    for family in FAMILIES:
        import_module(f"{_ROOT}.{family}.specs")
    # The order that clients see must not depend on the order of the modules.
    share_with_sentinels(_SHARED_WITH_SENTINELS)
    for registry in (REGISTRY, SENTINEL, EVERY_MODE):
        in_order = sorted(registry.items())
        registry.clear()
        registry.update(in_order)


def load_all() -> None:
    """Import the ``specs.py`` and all other modules of every family, for tools and tests."""
    load_specs()
    for family in FAMILIES:
        load(f"{_ROOT}.{family}")
