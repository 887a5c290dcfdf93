"""Format the argument trees of commands as text, for HELP replies and for the syntax lines of docs/commands.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...protocol import replies
from .command import EVERY_MODE, Argument, Command, subcommands_of
from .versions import Compat


def usage_line(command: Command) -> str:
    """Return the one-line syntax: ``XRANGE key start end [COUNT count]``; capitals are fixed words."""
    return " ".join([_title(command.name), *(_plain(argument) for argument in command.arguments)])


def help_lines(container: str) -> list[bytes]:
    """Return the lines of ``<container> HELP``: each subcommand's syntax and description.

    ``container``: its name in any case, e.g. ``"xgroup"``.
    """
    name = container.lower()
    lines = [f"{name.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    itself = EVERY_MODE.get(name)
    if itself is not None and itself.is_served:
        lines += ["(no subcommand)", f"    {itself.summary}"]
    for entry in sorted(subcommands_of(name), key=lambda entry: entry.name):
        title = _title(entry.name.partition("|")[2])
        if title != "HELP":
            words = [title, *(_angled(argument) for argument in entry.arguments)]
            lines += [" ".join(words), f"    {entry.summary}"]
    lines += ["HELP", "    Print this help."]
    return [line.encode() for line in lines]


def help_of(client: Any, _args: list[bytes], *, container: str) -> bytes:
    """Reply to ``<container> HELP`` with the lines of ``help_lines``."""
    return help_reply(help_lines(container), client.server.compat)


def help_reply(lines: Sequence[bytes], compat: Compat) -> bytes:
    """Return lines as the reply of a HELP subcommand; Redis 7.0 words the last of them differently."""
    last = lines[-1] if compat.uses_imperative_help_line else b"    Prints this help."
    return replies.simple_array([*lines[:-1], last])


def _title(name: str) -> str:
    return name.upper().replace("|", " ")


def _plain(argument: Argument) -> str:
    """Format an argument as reference pages do: ``id [id ...]``, ``[COUNT count]``, ``<* | id>``, ``[NX | XX]``."""
    optional = _is(argument, "optional")
    if argument.type == "oneof":
        text = " | ".join(map(_plain, _choices(argument)))
        if argument.token is not None or _is(argument, "multiple") or not optional:
            text = f"<{text}>"
    elif argument.type == "block":
        text = " ".join(map(_plain, argument.arguments))
    else:
        text = _value(argument)
    return _finished(argument, text, optional)


def _angled(argument: Argument, *, within: bool = False) -> str:
    """Format an argument as HELP does: ``<id> [<id> ...]``, ``[COUNT <count>]``, ``<id|$>``, ``(ON|OFF)``, ``[NX|XX]``.

    ``within``: an enclosing choice already has angle brackets, so a value needs none of its own.
    """
    optional = _is(argument, "optional")
    if argument.type == "oneof":
        return _finished(argument, _angled_choice(argument, bare=optional), optional)
    if argument.type == "block":
        return _finished(argument, " ".join(map(_angled, argument.arguments)), optional)
    text = _value(argument)
    if argument.type != "pure-token" and not within:
        text = f"<{text}>"
    return _finished(argument, text, optional)


def _angled_choice(argument: Argument, *, bare: bool) -> str:
    choices = _choices(argument)
    words_only = all(choice.type == "pure-token" for choice in choices)
    simple = all(
        not choice.arguments and (choice.token is None or choice.type == "pure-token") for choice in choices
    )
    if simple and not words_only:
        return "<" + "|".join(_angled(choice, within=True) for choice in choices) + ">"
    text = "|".join(map(_angled, choices))
    # The square brackets of an option already hold its choices together, unless a word stands before them.
    return text if bare and argument.token is None and not _is(argument, "multiple") else f"({text})"


def _choices(argument: Argument) -> list[Argument]:
    """Return the choices of a oneof; CLIENT KILL marks them optional, which means nothing inside a choice."""
    return [
        choice._replace(flags=choice.flags.replace("optional", "").strip()) for choice in argument.arguments
    ]


def _finished(argument: Argument, text: str, optional: bool) -> str:
    """Add the parts that every node may have: the option name, repetition, square brackets."""
    with_token = text
    if argument.token is not None and argument.type != "pure-token":
        with_token = f"{argument.token} {text}"
    if _is(argument, "multiple"):
        again = with_token if _is(argument, "multiple_token") else text
        # A choice can be long: it is not spelled out twice.
        with_token = f"{with_token} [...]" if argument.type == "oneof" else f"{with_token} [{again} ...]"
    return f"[{with_token}]" if optional else with_token


def _value(argument: Argument) -> str:
    if argument.type == "pure-token":
        return argument.token or ""
    return argument.display or argument.name


def _is(argument: Argument, flag: str) -> bool:
    return flag in argument.flags.split()
