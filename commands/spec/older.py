"""Command records of older versions: arity, flags, tips and key specifications.

``specs.py`` has the records of the newest version. Each function here undoes the changes of one version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .command import REGISTRY, Argument, Command, with_implied
from .key_finders import keys_of_streams_before_810
from .versions import Compat

_ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")
_SCRIPT_RUNNERS: Final = frozenset(("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"))
_SUBSCRIBE: Final = frozenset(("subscribe", "psubscribe", "ssubscribe"))
_HASH_EXPIRE: Final = frozenset(("hexpire", "hexpireat", "hpexpire", "hpexpireat"))
_STREAM_READS: Final = frozenset(("xread", "xreadgroup"))
_RADIUS: Final = frozenset(("georadius", "georadiusbymember"))
# Commands of CLUSTER that run while a data set loads: HELP always, these two since 7.4, all since 8.10.
_CLUSTER_WHILE_LOADING: Final = frozenset(("cluster|help", "cluster|shards", "cluster|slots"))


def known_commands(compat: Compat, registry: Mapping[str, Command] = REGISTRY) -> dict[str, Command]:
    """Return the commands and subcommands that a version has, as it declares them, by full name; containers included."""
    known = {name: entry for name, entry in registry.items() if compat.knows(entry.since)}
    for first, change in _CHANGES:
        if compat.number < first:
            known = {name: change(entry) for name, entry in known.items()}
    return known


def _before_810(entry: Command) -> Command:
    """Undo 8.10: it flags script runners, refuses subscriptions when memory is short, answers CLUSTER while loading."""
    if entry.name in _SCRIPT_RUNNERS:
        return entry.replaced(flags=entry.flags - {"script_runner"})
    if entry.name in _SUBSCRIBE:
        return entry.replaced(flags=entry.flags - {"denyoom"})
    if entry.container == "cluster" and entry.name not in _CLUSTER_WHILE_LOADING:
        return entry.replaced(flags=entry.flags - {"loading"})
    if entry.name in _STREAM_READS:
        return _all_found(entry).replaced(key_finder=keys_of_streams_before_810)
    if entry.name in _RADIUS:
        return _all_found(entry).replaced(key_finder=None)
    return entry


def _all_found(entry: Command) -> Command:
    """Return a command without the flag ``incomplete`` and the notes of its key specifications."""
    specs = tuple(
        spec._replace(flags=tuple(flag for flag in spec.flags if flag != "incomplete"), notes=None)
        for spec in entry.key_specs
    )
    return entry.replaced(key_specs=specs)


def _before_84(entry: Command) -> Command:
    """Undo 8.4: it lets SET compare the value, so that the write depends on what SET reads."""
    if entry.name == "set":
        return entry.replaced(arguments=tuple(map(_without_comparisons, entry.arguments)))
    return entry


def _without_comparisons(argument: Argument) -> Argument:
    parts = tuple(part for part in argument.arguments if part.since != "8.4.0")
    return argument._replace(arguments=parts)


def _before_82(entry: Command) -> Command:
    """Undo 8.2: it lets hash fields get an expiry while memory is short."""
    if entry.name in _HASH_EXPIRE:
        return entry.replaced(flags=entry.flags | {"denyoom"})
    return entry


def _before_74(entry: Command) -> Command:
    """Undo 7.4: it answers CLUSTER SHARDS and SLOTS while loading."""
    if entry.name in {"cluster|shards", "cluster|slots"}:
        return entry.replaced(flags=entry.flags - {"loading"})
    return entry


def _before_72(entry: Command) -> Command:
    """Undo 7.2: it lets scripts call blocking commands, completes the tips, and deprecates some commands.

    Since 7.2, COMMAND GETKEYS also accepts a command without arguments, and ZRANK an option.
    """
    if entry.name in _NOT_IN_SCRIPTS_BEFORE_72:
        entry = entry.replaced(flags=entry.flags | {"noscript"})
    if entry.name in _TIPS_BEFORE_72:
        entry = entry.replaced(tips=_TIPS_BEFORE_72[entry.name])
    if entry.name in _ARITY_BEFORE_72:
        entry = entry.replaced(arity=_ARITY_BEFORE_72[entry.name])
    if entry.name in _DEPRECATED_SINCE_72:
        return entry.replaced(doc_flags=(), deprecated_since=None, replaced_by=None)
    if entry.name == "xread":
        return entry.replaced(complexity=_READING_COST)
    if entry.name == "wait":
        flags = entry.flags - {"blocking"}
        return entry.replaced(flags=flags, categories=with_implied("connection", " ".join(flags)))
    if entry.name == "sinterstore":
        target, *others = entry.key_specs
        return entry.replaced(key_specs=(target._replace(flags=("RW", "update")), *others))
    return entry


_NOT_IN_SCRIPTS_BEFORE_72: Final = frozenset(
    ("blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin", "wait")
)
_DEPRECATED_SINCE_72: Final = frozenset(("psetex", "quit", "setex", "setnx"))
_READING_COST: Final = "O(K+N); K: streams given, N: entries returned"
_ARITY_BEFORE_72: Final = {"command|getkeys": -4, "command|getkeysandflags": -4, "zrank": 3, "zrevrank": 3}
_TIPS_BEFORE_72: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("acl|deluser", "acl|save", "acl|setuser", "client|setname", "config|resetstat", "config|rewrite"), ()
    ),
    "latency|reset": _ALL_NODES,
    "msetnx": ("request_policy:multi_shard", "response_policy:agg_min"),
    "randomkey": ("request_policy:all_shards", "nondeterministic_output"),
    "scan": ("nondeterministic_output", "request_policy:special"),
}
# Each function with the version whose changes it undoes.
_CHANGES: Final[tuple[tuple[tuple[int, int], Callable[[Command], Command]], ...]] = (
    ((8, 10), _before_810),
    ((8, 4), _before_84),
    ((8, 2), _before_82),
    ((7, 4), _before_74),
    ((7, 2), _before_72),
)
