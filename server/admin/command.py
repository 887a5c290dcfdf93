"""COMMAND: the command table for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...commands.runtime.client import Client
from ...commands.runtime.users import flags_of
from ...commands.spec.command import (
    FLAGS,
    Argument,
    Command,
    handles,
    keys_of,
    legacy_positions,
    subcommands_of,
)
from ...commands.spec.key_specs import KeyReference, KeySpec
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...protocol.globs import matches
from . import specs

_INFO_FIELDS: Final = 10
# Redis does not show these flags.
_HIDDEN: Final = frozenset(("may_replicate", "protected"))


def _known(client: Client) -> Mapping[str, Command]:
    return client.server.dispatcher.listed


def _top_level(client: Client) -> list[Command]:
    return [entry for name, entry in _known(client).items() if "|" not in name]


def _named(client: Client, word: bytes) -> Command | None:
    container, bar, subcommand = word.partition(b"|")
    name = client.server.dispatcher.own_name(container)
    return None if name is None else _known(client).get(name + (bar + subcommand).lower().decode("latin-1"))


def _subcommands(client: Client, entry: Command) -> list[Command]:
    return subcommands_of(entry.name, _known(client))


def _simple_set(words: list[str], resp: int) -> bytes:
    return replies.set_of([replies.simple(word.encode()) for word in words], resp)


def _text(word: str) -> bytes:
    return replies.bulk(word.encode())


def _info(client: Client, entry: Command) -> bytes:
    resp = client.resp
    first, last, step = legacy_positions(entry)
    subcommands = [_info(client, sub) for sub in _subcommands(client, entry)]
    return replies.array_header(_INFO_FIELDS) + b"".join(
        (
            _text(entry.name),
            replies.integer(entry.arity),
            _simple_set([flag for flag in FLAGS if flag in entry.flags and flag not in _HIDDEN], resp),
            replies.integer(first),
            replies.integer(last),
            replies.integer(step),
            _simple_set([f"@{name}" for name in entry.categories], resp),
            replies.set_of([_text(tip) for tip in entry.tips], resp),
            replies.set_of([_key_spec(client, spec) for spec in entry.key_specs], resp),
            # Inconsistent, as in Redis: an array of subcommands, but a set if there are none.
            replies.array(subcommands) if subcommands else replies.set_of([], resp),
        )
    )


def _key_spec(client: Client, spec: KeySpec) -> bytes:
    resp = client.resp
    pairs: list[tuple[bytes, bytes]] = []
    if spec.notes is not None:
        pairs.append((b"notes", _text(spec.notes)))
    pairs.append((b"flags", _simple_set(list(spec.flags), resp)))
    pairs.append((b"begin_search", _search(spec.begin, resp)))
    pairs.append((b"find_keys", _search(spec.find, resp)))
    return replies.map_of(pairs, resp)


_SEARCH_FIELDS: Final = {
    "index": ("index",),
    "keyword": ("keyword", "startfrom"),
    "range": ("lastkey", "keystep", "limit"),
    "keynum": ("keynumidx", "firstkey", "keystep"),
    "unknown": (),
}


def _search(search: tuple[str | int, ...], resp: int) -> bytes:
    kind, *values = search
    fields = [
        (name.encode(), _text(value) if isinstance(value, str) else replies.integer(value))
        for name, value in zip(_SEARCH_FIELDS[str(kind)], values, strict=True)
    ]
    return replies.map_of([(b"type", _text(str(kind))), (b"spec", replies.map_of(fields, resp))], resp)


def _docs(client: Client, entry: Command) -> bytes:
    resp = client.resp
    knows = client.server.compat.knows
    pairs: list[tuple[bytes, bytes]] = [
        (b"summary", _text(entry.summary)),
        (b"since", _text(entry.since)),
        (b"group", _text(entry.group)),
    ]
    if entry.complexity:
        pairs.append((b"complexity", _text(entry.complexity)))
    if entry.doc_flags:
        pairs.append((b"doc_flags", _simple_set(list(entry.doc_flags), resp)))
    pairs += [
        (field.encode(), _text(text))
        for field in ("deprecated_since", "replaced_by")
        if (text := getattr(entry, field)) is not None
    ]
    history = [
        replies.array([_text(version), _text(change)]) for version, change in entry.history if knows(version)
    ]
    if history:
        pairs.append((b"history", replies.set_of(history, resp)))
    arguments = _arguments(client, entry.arguments)
    if arguments:
        pairs.append((b"arguments", replies.array(arguments)))
    subcommands = _subcommands(client, entry)
    if subcommands:
        docs = [(sub.name.encode(), _docs(client, sub)) for sub in subcommands]
        pairs.append((b"subcommands", replies.map_of(docs, resp)))
    return replies.map_of(pairs, resp)


def _arguments(client: Client, arguments: Sequence[Argument]) -> list[bytes]:
    knows = client.server.compat.knows
    return [
        _argument(client, argument)
        for argument in arguments
        if argument.since is None or knows(argument.since)
    ]


def _argument(client: Client, argument: Argument) -> bytes:
    resp = client.resp
    pairs: list[tuple[bytes, bytes]] = [(b"name", _text(argument.name)), (b"type", _text(argument.type))]
    if argument.type not in {"oneof", "block"} and client.server.compat.knows("7.2"):
        pairs.append((b"display_text", _text(argument.display or argument.name)))
    if argument.key_spec is not None:
        pairs.append((b"key_spec_index", replies.integer(argument.key_spec)))
    pairs += [
        (field.encode(), _text(text))
        for field in ("token", "summary", "since", "deprecated_since")
        if (text := getattr(argument, field)) is not None and (field != "since" or argument.shows_since)
    ]
    if argument.flags:
        pairs.append((b"flags", _simple_set(argument.flags.split(), resp)))
    if argument.arguments:
        pairs.append((b"arguments", replies.array(_arguments(client, argument.arguments))))
    return replies.map_of(pairs, resp)


@handles(specs.COMMAND)
def command_all(client: Client, _args: list[bytes]) -> bytes:
    """Reply with an array of the ten-element description of each command (COMMAND)."""
    return replies.array([_info(client, entry) for entry in _top_level(client)])


@handles(specs.COMMAND_INFO)
def command_info(client: Client, args: list[bytes]) -> bytes:
    """Reply like COMMAND, but for the named commands; null for an unknown name."""
    if len(args) == 2:
        return replies.array([_info(client, entry) for entry in _top_level(client)])
    found = [_named(client, word) for word in args[2:]]
    return replies.array(
        [replies.null(client.resp) if entry is None else _info(client, entry) for entry in found]
    )


@handles(specs.COMMAND_DOCS)
def command_docs(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map from command names to their documentation; unknown names are left out."""
    found = (
        _top_level(client)
        if len(args) == 2
        else [entry for word in args[2:] if (entry := _named(client, word)) is not None]
    )
    return replies.map_of([(entry.name.encode(), _docs(client, entry)) for entry in found], client.resp)


@handles(specs.COMMAND_COUNT)
def command_count(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the number of commands, without subcommands."""
    return replies.integer(len(_top_level(client)))


@handles(specs.COMMAND_LIST)
def command_list(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names of all commands and subcommands, or only the ones that FILTERBY selects by MODULE, ACLCAT or PATTERN."""
    if len(args) == 2:
        names = list(_known(client))
    elif len(args) == 5 and args[2].upper() == b"FILTERBY":
        kind, value = args[3].upper(), args[4]
        if kind == b"MODULE":
            names = []
        elif kind == b"ACLCAT":
            category = value.lower().decode("latin-1")
            names = [name for name, entry in _known(client).items() if category in entry.categories]
        elif kind == b"PATTERN":
            names = [name for name in _known(client) if matches(value, name.encode(), ignore_case=True)]
        else:
            raise ReplyError(SYNTAX)
    else:
        raise ReplyError(SYNTAX)
    return replies.bulk_array([name.encode() for name in names])


def _keys_of_words(client: Client, words: list[bytes]) -> list[KeyReference]:
    # A container is also found without a subcommand, a subcommand only by two words.
    entry = _named(client, words[0]) if len(words) == 1 and b"|" not in words[0] else None
    if entry is None:
        try:
            entry = client.server.dispatcher.find(words).command
        except ReplyError as error:
            raise ReplyError(b"ERR Invalid command specified") from error
    if all("not_key" in spec.flags for spec in entry.key_specs):
        raise ReplyError(b"ERR The command has no key arguments")
    if not entry.accepts(len(words)):
        raise ReplyError(b"ERR Invalid number of arguments specified for command")
    found = keys_of(entry, words)
    if not found and "no_mandatory_keys" not in entry.flags:
        raise ReplyError(b"ERR Invalid arguments specified for command")
    return found


def _access(client: Client, words: list[bytes], reference: KeyReference) -> list[str]:
    """Return how this invocation uses a key; only SET's options make a difference."""
    if "variable_flags" not in reference.flags:
        return list(reference.flags)
    return list(flags_of(reference.flags, client.server.dispatcher.find(words).command, words))


@handles(specs.COMMAND_GETKEYS)
def command_getkeys(client: Client, args: list[bytes]) -> bytes:
    """Reply with the keys in a given command line; refuse one that is invalid or has no keys."""
    words = args[2:]
    return replies.bulk_array([words[reference.index] for reference in _keys_of_words(client, words)])


@handles(specs.COMMAND_GETKEYSANDFLAGS)
def command_getkeysandflags(client: Client, args: list[bytes]) -> bytes:
    """Reply with ``[key, [flags]]`` for each key in a given command line."""
    words = args[2:]
    return replies.array(
        [
            replies.array(
                [
                    replies.bulk(words[reference.index]),
                    _simple_set(_access(client, words, reference), client.resp),
                ]
            )
            for reference in _keys_of_words(client, words)
        ]
    )


handles(specs.COMMAND_HELP, container="command")(help_of)
