"""The command table as data: what a command is, and how handlers declare themselves.

A handler stands below its declaration, its one-line syntax above it::

    # XLEN key
    @command("XLEN", arity=2, flags="readonly fast", categories="stream", keys=(key(1, "RO"),), since="5.0.0",
             group="stream", complexity="O(1)", summary="Returns the number of entries in a stream.",
             arguments=syntax.XLEN)
    def xlen(client: Client, args: list[bytes]) -> bytes: ...

From these records alone come dispatch, arity and unknown-command errors, MULTI queueing, key extraction,
COMMAND, ACL categories, HELP and the README matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .key_specs import KeyReference, KeySpec, indices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # Of a client and the words of the command; a client is Any here, for a declaration knows no server.
    Handler: TypeAlias = Callable[[Any, list[bytes]], bytes | None]
    # A finder may tell what becomes of each key; else the flags of the first spec hold for all of them.
    KeyFinder: TypeAlias = Callable[[list[bytes]], "list[int] | list[KeyReference]"]

# The order in which COMMAND INFO lists them.
FLAGS = (
    "write readonly denyoom module admin pubsub noscript blocking loading stale skip_monitor skip_slowlog asking "
    "fast no_auth may_replicate no_mandatory_keys protected no_async_loading no_multi movablekeys allow_busy"
).split()


CATEGORIES = (
    "keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow "
    "blocking dangerous connection transaction scripting"
).split()


@dataclass(frozen=True, slots=True)
class Argument:
    """One node of a command's argument tree, as COMMAND DOCS tells it.

    ``type`` is one of string integer double key pattern unix-time pure-token oneof block. ``flags`` holds any of
    "optional multiple multiple_token" as one string. ``display`` is given only where it differs from ``name``.
    """

    name: str
    type: str
    token: str | None = None
    flags: str = ""
    arguments: tuple[Argument, ...] = ()
    display: str | None = None
    key_spec: int | None = None
    summary: str | None = None
    since: str | None = None
    deprecated_since: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One command or subcommand; the fields are those of COMMAND INFO and COMMAND DOCS."""

    name: str  # lower case; a subcommand is "xgroup|create"
    arity: int  # words including the name; negative: at least that many
    handler: Handler | None  # None: a container that needs a subcommand
    flags: frozenset[str]
    categories: tuple[str, ...]
    key_specs: tuple[KeySpec, ...]
    key_finder: KeyFinder | None  # for keys that the specs cannot find alone (XREAD)
    tips: tuple[str, ...]
    since: str
    group: str
    complexity: str
    summary: str
    history: tuple[tuple[str, str], ...]
    arguments: tuple[Argument, ...]
    doc_flags: tuple[str, ...] = ()
    deprecated_since: str | None = None
    replaced_by: str | None = None

    @property
    def container(self) -> str | None:
        """The name of the container of a subcommand, else None."""
        head, bar, _ = self.name.partition("|")
        return head if bar else None

    @property
    def is_write(self) -> bool:
        """Whether it may change data."""
        return "write" in self.flags

    def accepts(self, words: int) -> bool:
        """Whether the arity allows so many words, name included."""
        return words == self.arity if self.arity > 0 else words >= -self.arity


# Filled while the command modules are imported, never afterwards.
REGISTRY: dict[str, Command] = {}


def command(
    name: str,
    *,
    arity: int,
    flags: str = "",
    categories: str = "",
    keys: Sequence[KeySpec] = (),
    key_finder: KeyFinder | None = None,
    tips: Sequence[str] = (),
    since: str,
    group: str,
    complexity: str = "",
    summary: str,
    history: Sequence[tuple[str, str]] = (),
    arguments: Sequence[Argument] = (),
    doc_flags: str = "",
    deprecated_since: str | None = None,
    replaced_by: str | None = None,
) -> Callable[[Handler], Handler]:
    """Declare the command that the decorated handler serves.

    ``categories`` names only what the flags do not imply: write, read, fast, slow, admin, pubsub, blocking and
    dangerous (for admin) are derived from the flags as Redis derives them. A handler gets the whole argv,
    name included (``args[0]``), and answers encoded bytes, or None when it replies later (blocked) or not at all.
    """

    def declare(handler: Handler) -> Handler:
        _register(
            Command(
                name=name.lower(),
                arity=arity,
                handler=handler,
                flags=_checked_flags(flags),
                categories=_with_implied(categories, flags),
                key_specs=tuple(keys),
                key_finder=key_finder,
                tips=tuple(tips),
                since=since,
                group=group,
                complexity=complexity,
                summary=summary,
                history=tuple(history),
                arguments=tuple(arguments),
                doc_flags=tuple(doc_flags.split()),
                deprecated_since=deprecated_since,
                replaced_by=replaced_by,
            )
        )
        return handler

    return declare


def container(
    name: str, *, since: str, group: str, summary: str, flags: str = "", categories: str = "", arity: int = -2
) -> None:
    """Declare a command that only holds subcommands (XGROUP, CLIENT …)."""
    _register(
        Command(
            name=name.lower(),
            arity=arity,
            handler=None,
            flags=_checked_flags(flags),
            categories=_with_implied(categories, flags),
            key_specs=(),
            key_finder=None,
            tips=(),
            since=since,
            group=group,
            complexity="Depends on subcommand.",
            summary=summary,
            history=(),
            arguments=(),
        )
    )


def subcommands_of(name: str) -> list[Command]:
    """The subcommands of a container, in declaration order."""
    prefix = name + "|"
    return [entry for full, entry in REGISTRY.items() if full.startswith(prefix)]


def _register(entry: Command) -> None:
    if entry.name in REGISTRY:
        raise ValueError(f"command {entry.name} is declared twice")
    REGISTRY[entry.name] = entry


def _checked_flags(flags: str) -> frozenset[str]:
    found = frozenset(flags.split())
    unknown = found.difference(FLAGS)
    if unknown:
        raise ValueError(f"unknown command flags: {sorted(unknown)}")
    return found


def _with_implied(categories: str, flags: str) -> tuple[str, ...]:
    words = set(flags.split())
    found = set(categories.split())
    unknown = found.difference(CATEGORIES)
    if unknown:
        raise ValueError(f"unknown categories: {sorted(unknown)}")
    if "write" in words:
        found.add("write")
    if "readonly" in words and "scripting" not in found:
        found.add("read")
    if "admin" in words:
        found.update(("admin", "dangerous"))
    if "pubsub" in words:
        found.add("pubsub")
    if "blocking" in words:
        found.add("blocking")
    found.add("fast" if "fast" in words else "slow")
    return tuple(name for name in CATEGORIES if name in found)


def keys_of(entry: Command, argv: list[bytes]) -> list[KeyReference]:
    """The keys that ``argv`` names, by the key specs (or the command's own finder)."""
    if entry.key_finder is not None:
        flags = entry.key_specs[0].flags if entry.key_specs else ()
        flags = tuple(flag for flag in flags if flag != "incomplete")  # which is why there is a finder
        return [
            found if isinstance(found, KeyReference) else KeyReference(found, flags)
            for found in entry.key_finder(argv)
        ]
    found: list[KeyReference] = []
    for spec in entry.key_specs:
        found.extend(KeyReference(index, spec.flags) for index in indices_of(spec, argv))
    return found


def legacy_positions(entry: Command) -> tuple[int, int, int]:
    """First key, last key and step of COMMAND INFO's older fields, from the first run of fixed-index specs."""
    found: tuple[int, int, int] | None = None
    for spec in entry.key_specs:
        if spec.begin[0] != "index" or spec.find[0] != "range":
            break
        first, last, step = int(spec.begin[1]), int(spec.find[1]), int(spec.find[2])
        end = first + last if last >= 0 else last
        if found is None:
            found = first, end, step
        elif found[1] + 1 == first:
            # RENAME: two specs, for the keys are treated differently, and yet one run of words.
            found = found[0], end, step
        else:
            break
    return found or (0, 0, 0)
