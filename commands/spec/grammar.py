"""The vocabulary of the argument trees for COMMAND DOCS; the trees are in the ``specs.py`` of each family.

A tree is the grammar of a command after its name: `string`, `integer` … are values (their second word is the
option name that precedes them), `token` is a fixed word, `oneof` a choice, `block` a sequence. `optional` and
`many` wrap what may be left out or repeated; `switch` is an optional token. Names are those of Redis 7.2 and
later. The trees inform clients (and are the source of HELP and of documented syntax lines); they do not parse.
"""

from __future__ import annotations

from typing import Any, Final

from .command import Argument


def string(name: str, token: str | None = None, **more: Any) -> Argument:
    """Return the node of an argument that may be any bytes.

    ``more`` are fields of ``Argument``, here and below.
    """
    return Argument(name, "string", token, **more)


def integer(name: str, token: str | None = None, **more: Any) -> Argument:
    """Return the node of an argument that is a whole number."""
    return Argument(name, "integer", token, **more)


def double(name: str, token: str | None = None) -> Argument:
    """Return the node of an argument that is a floating-point number."""
    return Argument(name, "double", token)


def unix_time(name: str, token: str | None = None, **more: Any) -> Argument:
    """Return the node of an argument that is a point in time; its name states the unit."""
    return Argument(name, "unix-time", token, **more)


def pattern(name: str = "pattern", token: str | None = None, **more: Any) -> Argument:
    """Return the node of an argument that is a glob; pass ``key_spec`` if it stands for keys."""
    return Argument(name, "pattern", token, **more)


def key(name: str = "key", token: str | None = None, *, spec: int = 0, **more: Any) -> Argument:
    """Return the node of an argument that is a key; ``spec`` is the index of the key spec that finds it."""
    return Argument(name, "key", token, key_spec=spec, **more)


def token(word: str, *, name: str | None = None, since: str | None = None) -> Argument:
    """Return the node of a fixed word of the syntax, such as LIMIT."""
    return Argument(word.lower() if name is None else name, "pure-token", word, since=since)


def switch(word: str, *, name: str | None = None, since: str | None = None) -> Argument:
    """Return the node of a fixed word that may be left out."""
    return optional(token(word, name=name, since=since))


def oneof(name: str, *choices: Argument, after: str | None = None, since: str | None = None) -> Argument:
    """Return the node of a choice: exactly one of ``choices``, after the word ``after`` if given."""
    return Argument(name, "oneof", after, arguments=choices, since=since)


def block(name: str, *parts: Argument, after: str | None = None, since: str | None = None) -> Argument:
    """Return the node of a sequence: all ``parts`` in this order, after the word ``after`` if given."""
    return Argument(name, "block", after, arguments=parts, since=since)


def silent(argument: Argument) -> Argument:
    """Return the node without its version in COMMAND DOCS, which Redis leaves out for a few."""
    return argument._replace(shows_since=False)


def optional(argument: Argument) -> Argument:
    """Return a node of the syntax as one that may be left out."""
    return argument._replace(flags=f"optional {argument.flags}".rstrip())


def many(argument: Argument, *, with_token: bool = False) -> Argument:
    """Return a node of the syntax as one that occurs once or more.

    ``with_token`` repeats the option name each time.
    """
    return argument._replace(flags="multiple multiple_token" if with_token else "multiple")


KEY: Final = key()
MANY_KEYS: Final = many(KEY)
COMMAND_LINE = string("command"), optional(many(string("arg")))
