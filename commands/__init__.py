"""Commands: a declarative table and one family of handlers a file."""

from importlib import import_module
from pkgutil import iter_modules

from .table import REGISTRY


def load_all() -> None:
    """Import every module of this package, so that each command has declared itself."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    # The order that clients see does not depend on that of the modules.
    for name in sorted(REGISTRY):
        REGISTRY[name] = REGISTRY.pop(name)
