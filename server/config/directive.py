"""A configuration directive: its type, whether CONFIG SET may change it, and the Redis versions that have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from . import kinds


class Directive(NamedTuple):
    """One name of a directive; an alias is a Directive of its own with the same ``attribute``."""

    name: str  # with dashes, as clients write it
    attribute: str  # the field of Config
    kind: kinds.Kind[Any]
    mutable: bool  # CONFIG SET may change it
    protected: bool  # CONFIG SET may change it only if enable-protected-configs allows that
    hidden: tuple[int, int] | None  # from this version on, CONFIG GET shows it only by its exact name
    since: tuple[int, int]  # the first version whose CONFIG knows it; a file may contain it in any version
    until: tuple[int, int] | None  # the first version whose CONFIG no longer knows it
    primary: bool  # not an alias

    def words(self, value: bytes) -> list[bytes]:
        """Split the value of a CONFIG SET, or a quoted word in a file, at spaces if the directive takes several words."""
        return value.split(b" ") if self.kind.multiple else [value]

    def known(self, version: tuple[int, int]) -> bool:
        """Return True if CONFIG of this Redis version knows the directive."""
        return self.since <= version and (self.until is None or version < self.until)

    def listed(self, version: tuple[int, int]) -> bool:
        """Return True if CONFIG GET of this Redis version finds the directive by a glob."""
        return self.known(version) and (self.hidden is None or version < self.hidden)


class Setting:
    """A field of ``Config``. A plain class: as a dataclass, ``Config`` would cost each start 2 ms."""

    __slots__ = ("default", "metadata")

    def __init__(self, default: Any, metadata: dict[str, Any] | None = None) -> None:
        self.default = default  # or a function that returns it
        self.metadata = metadata  # of a directive: the arguments of ``directive``


def setting(default: Any) -> Any:
    """Declare a field of ``Config`` that is no directive."""
    return Setting(default)


def directive(
    default: Any,
    kind: kinds.Kind[Any],
    *,
    alias: str | tuple[str, ...] = (),
    mutable: bool = True,
    protected: bool = False,
    hidden: str | None = None,
    since: str = "7.0",
    until: str | None = None,
) -> Any:
    """Declare a field of ``Config``, and the directive of the same name with dashes. ``Directive`` explains the rest.

    Args:
        default: the default value, or a function that returns it.
        alias: further names; these are known to every version, even if the name itself is newer.
    """
    metadata = {
        "kind": kind,
        "aliases": (alias,) if isinstance(alias, str) else alias,
        "mutable": mutable,
        "protected": protected,
        "hidden": None if hidden is None else numbers(hidden),
        "since": numbers(since),
        "until": None if until is None else numbers(until),
    }
    return Setting(default, metadata)


def fixed(default: Any, kind: kinds.Kind[Any], **keywords: Any) -> Any:
    """Declare a directive that a file or a flag can set, but CONFIG SET cannot."""
    return directive(default, kind, mutable=False, **keywords)


@cache  # each start reads the few versions of 250 directives
def numbers(version: str) -> tuple[int, int]:
    """Parse a Redis version such as ``8.10`` to (8, 10), which can be compared."""
    major, minor = version.split(".")
    return int(major), int(minor)


def table(settings: Mapping[str, Setting]) -> dict[bytes, Directive]:
    """Return the directives among the fields of a configuration, by name; an alias is a name, too."""
    found: dict[bytes, Directive] = {}
    for attribute, each in settings.items():
        said = each.metadata
        if said is None:
            continue
        own = attribute.replace("_", "-")
        for name in (own, *said["aliases"]):
            since = said["since"] if name == own else (7, 0)
            found[name.encode()] = Directive(
                *(name, attribute, said["kind"], said["mutable"], said["protected"], said["hidden"]),
                *(since, said["until"], name == own),
            )
    return found
