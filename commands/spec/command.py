"""Declare commands as data: one record per command, in the ``specs.py`` of its family.

    XLEN = family.read("XLEN", arity=2, flags="fast", keys=INSPECTS, since="5.0.0",
        summary="Returns the number of entries in a stream.",
        arguments=(KEY,))

The handler names the record that it serves::

    @handles(specs.XLEN)
    def xlen(client: Client, args: list[bytes]) -> bytes: ...

These records alone define dispatch, arity and unknown-command errors, MULTI queueing, key extraction, COMMAND, ACL
categories, HELP and the generated documentation. A handler is imported when a server looks up its command for the first
time (``handler_for``): most servers never receive a GEOADD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from threading import RLock
from types import FunctionType, MappingProxyType
from typing import Any, Concatenate, Final, NamedTuple, TypeAlias, TypeVar

from .key_finders import keys_by_number
from .key_specs import KeyReference, KeySpec, indices_of
from .versions import NEWEST

# Takes a client and the words of the command. The client is Any here, because declarations do not know the server.
Handler: TypeAlias = Callable[[Any, list[bytes]], bytes | None]
# A handler as written: keyword parameters hold the differences between the commands that it serves.
AnyHandler = TypeVar("AnyHandler", bound=Callable[Concatenate[Any, list[bytes], ...], bytes | None])
# Takes a client, a batch of commands and an index in it; returns the replies to the commands that it ran.
BatchHandler: TypeAlias = Callable[[Any, list[list[bytes]], int], list[bytes] | None]
# A finder may return the flags of each key; else the flags of the first spec apply to all keys.
KeyFinder: TypeAlias = Callable[[list[bytes]], "list[int] | list[KeyReference]"]

SHORTEST_RUN: Final = 4  # commands; a batch handler takes no fewer, because these run faster one by one

# The order in which COMMAND INFO lists them.
FLAGS = (
    "write readonly denyoom module admin pubsub noscript blocking loading stale skip_monitor skip_slowlog asking "
    "fast no_auth may_replicate no_mandatory_keys protected no_async_loading no_multi movablekeys allow_busy "
    "script_runner"
).split()
CATEGORIES = (
    "keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow "
    "blocking dangerous connection transaction scripting"
).split()


class Argument(NamedTuple):
    """One node of a command's argument tree, as COMMAND DOCS returns it.

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
    shows_since: bool = True  # False: COMMAND DOCS leaves it out, as Redis does


class Command:
    """One command or subcommand; the fields are those of COMMAND INFO and COMMAND DOCS."""

    def __init__(
        self,
        name: str,
        arity: int,
        flags: frozenset[str],
        categories: tuple[str, ...],
        key_specs: tuple[KeySpec, ...],
        key_finder: KeyFinder | None,
        tips: tuple[str, ...],
        since: str,
        group: str,
        complexity: str,
        summary: str,
        history: tuple[tuple[str, str], ...],
        arguments: tuple[Argument, ...],
        room: str,
        module: str | None,
        is_served: bool = True,
        doc_flags: tuple[str, ...] = (),
        deprecated_since: str | None = None,
        replaced_by: str | None = None,
        ours: bool = False,
    ) -> None:
        self.name = name  # lower case; a subcommand is "xgroup|create"
        self.arity = arity  # words including the name; negative: at least that many
        self.flags = flags
        self.categories = categories
        self.key_specs = key_specs
        self.key_finder = key_finder  # for keys that the specs cannot find alone (XREAD)
        self.tips = tips
        self.since = since
        self.group = group
        self.complexity = complexity
        self.summary = summary
        self.history = history
        self.arguments = arguments
        self.room = room  # the package that holds its handler
        self.module = module  # the module whose import registers its handler; None: unnamed
        self.is_served = is_served  # False: it only holds subcommands
        self.doc_flags = doc_flags
        self.deprecated_since = deprecated_since
        self.replaced_by = replaced_by
        self.ours = ours  # no Redis has it: comparisons with real servers leave it out

    def replaced(self, **fields: Any) -> Command:
        """Return a copy of the record in which the given fields have other values."""
        return Command(**vars(self) | fields)

    @property
    def container(self) -> str | None:
        """The name of the container of a subcommand (``xgroup``); None for other commands."""
        head, bar, _ = self.name.partition("|")
        return head if bar else None

    def accepts(self, words: int) -> bool:
        """Return True if the arity allows a command of so many words, its name included."""
        return words == self.arity if self.arity > 0 else words >= -self.arity


# Filled while the specs of all families are imported, never afterwards.
REGISTRY: dict[str, Command] = {}
# The commands of a server in sentinel mode: its own, and commands that it shares with others (``share_with_sentinels``).
SENTINEL: dict[str, Command] = {}
# The commands that ACL rules may name: those of both modes.
EVERY_MODE: dict[str, Command] = {}
# Filled while the modules of a family are imported, never afterwards.
_HANDLERS: dict[str, Handler] = {}
_BATCH_HANDLERS: dict[str, BatchHandler] = {}
_IN_SENTINEL: dict[str, Handler] = {}
_OLDER: dict[str, dict[str, Handler]] = {}  # by the version that replaced them; at most one for each command
_loaded: set[str] = set()  # packages
_loading = RLock()  # servers of one process may run in several threads


class Family:
    """The properties that the commands of one family share; each call of its methods declares one command.

    Args:
        room: the package of the family (``__package__``).
        group: the group in COMMAND DOCS.
        categories: ACL categories that the flags do not imply.
        modules: the commands that each module of the room handles; a container stands for its subcommands. Such a module
            is imported alone, at the first call of one of its commands. Without modules, the whole room is imported.
        registry: receives the commands: REGISTRY, or SENTINEL for commands that only sentinel mode has.
    """

    def __init__(
        self,
        room: str,
        group: str,
        *,
        categories: str = "",
        modules: Mapping[str, str] = MappingProxyType({}),
        registry: dict[str, Command] = REGISTRY,
    ) -> None:
        self.room = room
        self.group = group
        self.categories = categories
        self.registry = registry
        self._module_of = {
            name: f"{room}.{module}" for module, names in modules.items() for name in names.split()
        }

    def command(
        self,
        name: str,
        *,
        arity: int,
        flags: str = "",
        categories: str | None = None,
        keys: KeySpec | tuple[KeySpec, ...] = (),
        key_finder: KeyFinder | None = None,
        tips: str = "",
        since: str,
        group: str | None = None,
        complexity: str = "O(1)",
        summary: str,
        history: Mapping[str, str] = MappingProxyType({}),
        arguments: tuple[Argument, ...] = (),
        is_served: bool = True,
        doc_flags: str = "",
        deprecated_since: str | None = None,
        replaced_by: str | None = None,
        ours: bool = False,
    ) -> Command:
        """Declare and register a command that is neither a plain read nor a write; a subcommand is named ``XGROUP|CREATE``.

        ``ours`` means that no Redis has the command; ``since`` is then a version of Rillet.

        Pass ``categories`` and ``group`` only if they differ from those of the family. Never pass categories that the
        flags imply (write, read, fast, slow, admin, pubsub, blocking, and dangerous for admin).
        """
        name = name.lower()
        module = self._module_of.get(name) or self._module_of.get(name.partition("|")[0])
        return _register(
            Command(
                name=name,
                arity=arity,
                flags=_checked_flags(flags),
                categories=with_implied(self.categories if categories is None else categories, flags),
                key_specs=(keys,) if isinstance(keys, KeySpec) else keys,
                key_finder=key_finder,
                tips=tuple(tips.split()),
                since=since,
                group=group or self.group,
                complexity=complexity,
                summary=summary,
                history=tuple(history.items()),
                arguments=arguments,
                room=self.room,
                module=module,
                is_served=is_served,
                doc_flags=tuple(doc_flags.split()),
                deprecated_since=deprecated_since,
                replaced_by=replaced_by,
                ours=ours,
            ),
            self.registry,
        )

    def read(self, name: str, *, flags: str = "", **record: Any) -> Command:
        """Declare a command that reads data and never changes it."""
        return self.command(name, flags=f"readonly {flags}", **record)

    def write(self, name: str, *, flags: str = "", **record: Any) -> Command:
        """Declare a command that may change data."""
        return self.command(name, flags=f"write {flags}", **record)

    def container(self, name: str, *, categories: str = "", **record: Any) -> Command:
        """Declare a command that only holds subcommands (XGROUP, CLIENT …)."""
        return self.command(
            name,
            arity=-2,
            categories=categories,
            complexity="that of the subcommand",
            is_served=False,
            **record,
        )

    def help(self, container: str, **record: Any) -> Command:
        """Declare ``<container> HELP``, whose handler is ``usage.help_of``."""
        summary = "Describes the subcommands."
        return self.command(f"{container}|HELP", arity=2, flags="loading stale", summary=summary, **record)


def handles(
    *commands: Command, until: str | None = None, in_sentinel: bool = False, **fixed: object
) -> Callable[[AnyHandler], AnyHandler]:
    """Make the decorated function the handler of the commands.

    A handler gets the whole argv, name included (``args[0]``), and returns encoded bytes, or None when it replies
    later (blocked) or not at all. A function that serves several commands takes the differences by keyword::

        @handles(specs.LPUSH, left=True)
        @handles(specs.RPUSH, left=False)
        def push(client: Client, args: list[bytes], *, left: bool) -> bytes: ...

    Args:
        until: this older handler serves versions of Redis before this one (``"7.2"``); the function is then in a
            ``v….py`` beside the newer handler. None: this is the current handler.
        in_sentinel: the handler serves sentinel mode; the function is in ``server/sentinel/commands``.
        fixed: keyword arguments of the function when it serves these commands.
    """

    def bind(function: AnyHandler) -> AnyHandler:
        handler = _with_defaults(function, fixed) if fixed else function
        for command in commands:
            handlers = _IN_SENTINEL if in_sentinel else _HANDLERS
            if until is not None:
                handlers = _OLDER.setdefault(until, {})
            # After an import failed half-way (no memory, no files), the next attempt registers the same handlers.
            if command.name in handlers and handlers[command.name].__module__ != handler.__module__:
                raise ValueError(f"command {command.name} has two handlers")
            handlers[command.name] = handler
        return function

    return bind


def _with_defaults(function: Any, fixed: dict[str, object]) -> Handler:
    """Return a copy of a function with other keyword defaults; a call costs 0.3 µs less than one of a partial."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **fixed}
    return copy


def handles_batches(command: Command) -> Callable[[BatchHandler], BatchHandler]:
    """Make the decorated function the batch handler of a command.

    It runs several successive commands of a batch with the effects and replies of the normal handler, or returns None.
    """

    def bind(handler: BatchHandler) -> BatchHandler:
        _BATCH_HANDLERS[command.name] = handler
        return handler

    return bind


def load(room: str) -> None:
    """Import all modules of a family, which register their handlers.

    Raises ImportError, OSError: the modules cannot be read now (no file descriptors left); another call tries again.
    """
    if room in _loaded:
        return
    from pkgutil import iter_modules

    with _loading:
        modules = list(iter_modules(import_module(room).__path__))
        if not modules:
            raise ImportError(f"the modules of {room} cannot be listed")  # iter_modules hides the reason
        for module in modules:
            import_module(f"{room}.{module.name}")
        _loaded.add(room)


def handler_for(command: Command, knows: Callable[[str], bool], *, in_sentinel: bool = False) -> Handler:
    """Return the handler that a command has in a Redis version; ``knows`` is that version's ``Compat.knows``."""
    # Only the room knows whether an older version has another handler.
    if command.module is not None and knows(NEWEST):
        with _loading:
            import_module(command.module)
    else:
        load(command.room)
    if in_sentinel and command.name in _IN_SENTINEL:
        return _IN_SENTINEL[command.name]
    for until, handlers in _OLDER.items():
        if command.name in handlers and not knows(until):
            return handlers[command.name]
    return _HANDLERS[command.name]


def batch_handler_for(command: Command) -> BatchHandler | None:
    """Return the batch handler of a command whose handler was looked up; None if there is none."""
    return _BATCH_HANDLERS.get(command.name)


def subcommands_of(name: str, registry: Mapping[str, Command] = EVERY_MODE) -> list[Command]:
    """Return the subcommands of a container, in declaration order."""
    prefix = name + "|"
    return [entry for full, entry in registry.items() if full.startswith(prefix)]


def share_with_sentinels(containers: frozenset[str]) -> None:
    """Make the named containers and commands, with their subcommands, available in sentinel mode, too."""
    shared = {name: entry for name, entry in REGISTRY.items() if name.partition("|")[0] in containers}
    del shared["client|no-touch"]  # Redis leaves it out
    SENTINEL.update(shared)


def _register(entry: Command, registry: dict[str, Command]) -> Command:
    if entry.name in EVERY_MODE:
        raise ValueError(f"command {entry.name} is declared twice")
    registry[entry.name] = EVERY_MODE[entry.name] = entry
    return entry


@cache  # hundreds of commands share some dozens of sets
def _checked_flags(flags: str) -> frozenset[str]:
    found = frozenset(flags.split())
    unknown = found.difference(FLAGS)
    if unknown:
        raise ValueError(f"unknown command flags: {sorted(unknown)}")
    return found


@cache
def with_implied(categories: str, flags: str) -> tuple[str, ...]:
    """Add the ACL categories that flags imply to ``categories``; return all in the order of CATEGORIES.

    Raises ValueError for an unknown category.
    """
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
    """Return the keys that a command line names, found by the key specs or the command's own finder."""
    if entry.key_finder is not None:
        flags = entry.key_specs[0].flags if entry.key_specs else ()
        flags = tuple(flag for flag in flags if flag != "incomplete")  # which is why there is a finder
        return [
            found if isinstance(found, KeyReference) else KeyReference(found, flags)
            for found in entry.key_finder(argv)
        ]
    found: list[KeyReference] = []
    for spec in entry.key_specs:
        indices = indices_of(spec, argv)
        if indices is None:
            return keys_by_number(entry.key_specs, argv)
        found.extend(KeyReference(index, spec.flags) for index in indices)
    return found


def legacy_positions(entry: Command) -> tuple[int, int, int]:
    """Return first key, last key and step for the older fields of COMMAND INFO; all 0 if no key has a fixed position."""
    found: tuple[int, int, int] | None = None
    for spec in entry.key_specs:
        if spec.begin[0] != "index" or spec.find[0] != "range":
            break
        first, last, step = int(spec.begin[1]), int(spec.find[1]), int(spec.find[2])
        end = first + last if last >= 0 else last
        if found is None:
            found = first, end, step
        elif found[1] + 1 == first:
            # RENAME: two specs, because the keys are treated differently, but one run of words.
            found = found[0], end, step
        else:
            break
    return found or (0, 0, 0)
