"""Rillet's knowledge of the commands that pass a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...commands.spec.command import REGISTRY, Command
from ...server.families import load_specs

load_specs()

_CONTAINERS: Final = frozenset(name.partition("|")[0] for name in REGISTRY if "|" in name)
_READS: Final = frozenset(("xread", "xreadgroup"))
MOST_HELD: Final = 1 << 20
"""The most bytes of a request or a reply that the proxy buffers; longer ones pass in pieces."""


def command_of(argv: Sequence[bytes]) -> Command:
    """Return the record of a command or subcommand; an unknown one, e.g. of a module, gets a record without keys."""
    name = argv[0].lower().decode("latin-1")
    if name in _CONTAINERS and len(argv) > 1:
        found = REGISTRY.get(f"{name}|{argv[1].lower().decode('latin-1')}")
        if found is not None:
            return found
    found = REGISTRY.get(name) if "|" not in name else None
    if found is not None:
        return found
    return REGISTRY["ping"].replaced(
        name=name.replace("|", " "), arity=-1, flags=frozenset(), key_specs=(), key_finder=None
    )


def may_wait(command: Command, argv: Sequence[bytes]) -> bool:
    """Return True if a command may block: it is a blocking one; XREAD and XREADGROUP only with BLOCK."""
    if "blocking" not in command.flags:
        return False
    return command.name not in _READS or any(word.upper() == b"BLOCK" for word in argv)


BLOCKING: Final = frozenset(
    name.encode().upper() for name, each in REGISTRY.items() if "blocking" in each.flags
)
"""The names, in upper case, of commands that may block."""
