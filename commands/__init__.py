"""Commands: one package per family, each with its declarations and its handlers."""

from importlib import import_module
from pkgutil import iter_modules

from .spec.command import REGISTRY

FAMILIES = (
    "acl",
    "admin",
    "bitmaps",
    "cluster",
    "connection",
    "geo",
    "hashes",
    "hyperloglog",
    "keys",
    "lists",
    "pubsub",
    "replication",
    "scripting",
    "sets",
    "sorted_sets",
    "streams",
    "strings",
    "transactions",
)


def load_all() -> None:
    """Import every module of every family; this fills the registry of commands."""
    for family in FAMILIES:
        package = import_module(f"{__name__}.{family}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    # The order that clients see must not depend on the order of the modules.
    for name in sorted(REGISTRY):
        REGISTRY[name] = REGISTRY.pop(name)
