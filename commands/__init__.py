"""Commands: one package per family, each with its declarations and its handlers."""

from importlib import import_module
from pkgutil import iter_modules

from .spec.command import EVERY_MODE, REGISTRY, SENTINEL, share_with_sentinels

FAMILIES = (
    "acl",
    "admin",
    "bitmaps",
    "cluster",
    "connection",
    "debug",
    "geo",
    "hashes",
    "hyperloglog",
    "keys",
    "lists",
    "pubsub",
    "replication",
    "scripting",
    "sentinel",
    "sets",
    "sorted_sets",
    "streams",
    "strings",
    "transactions",
)


# What a server in sentinel mode answers beside SENTINEL.
_SHARED_WITH_SENTINELS = frozenset(
    (
        "acl",
        "auth",
        "client",
        "command",
        "hello",
        "info",
        "ping",
        "psubscribe",
        "publish",
        "punsubscribe",
        "role",
        "shutdown",
        "subscribe",
        "unsubscribe",
    )
)


def load_all() -> None:
    """Import every module of every family; this fills the registries of commands."""
    for family in FAMILIES:
        package = import_module(f"{__name__}.{family}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    # The order that clients see must not depend on the order of the modules.
    share_with_sentinels(_SHARED_WITH_SENTINELS)
    for registry in (REGISTRY, SENTINEL, EVERY_MODE):
        for name in sorted(registry):
            registry[name] = registry.pop(name)
