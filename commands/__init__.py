"""Commands: one package per family, each with its declarations and its handlers."""

from importlib import import_module

from .spec.command import EVERY_MODE, REGISTRY, SENTINEL, load, share_with_sentinels

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


def load_specs() -> None:
    """Import the records of every family; this fills the registries of commands."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}.specs")
    # The order that clients see must not depend on the order of the modules.
    share_with_sentinels(_SHARED_WITH_SENTINELS)
    for registry in (REGISTRY, SENTINEL, EVERY_MODE):
        in_order = sorted(registry.items())
        registry.clear()
        registry.update(in_order)


def load_all() -> None:
    """Import every module of every family, too: for tools and tests."""
    load_specs()
    for family in FAMILIES:
        load(f"{__name__}.{family}")
