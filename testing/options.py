"""Options of fixtures, divided by name into the server's and its clients'."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

_WORDS: Final = {"yes": True, "true": True, "no": False, "false": False, "none": None}
# A client is connected to the server of the fixture.
_NOT_FOR_CLIENTS: Final = {"self", "host", "port", "unix_socket_path", "connection_pool"}


class Options:
    """The options of one server and those of its clients."""

    def __init__(self) -> None:
        self.server: dict[str, Any] = {}  # arguments of ``rillet.testing.Server``
        # Arguments of ``Server.client``: those of ``redis.Redis``, and ``like``.
        self.client: dict[str, Any] = {}


def split(options: Mapping[str, Any]) -> Options:
    """Divide options into the server's and the clients', and return both.

    Directives of redis.conf (with underscores) and arguments of ``rillet.testing.Server`` go to the server, arguments
    of
    ``redis.Redis`` to the clients.
    Raises ValueError: a name is neither.
    """
    found = Options()
    for name, value in options.items():
        # Directives last: to know them, this process must import modules of the server.
        if name in _server_arguments():
            found.server[name] = value
        elif name in _client_names():
            found.client[name] = value
        elif name in _directives():
            found.server[name] = value
        else:
            import difflib

            close = difflib.get_close_matches(name, _server_arguments() | _directives() | _client_names(), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            hint += "" if _client_names() else " (redis-py is not installed: pip install 'rillet[testing]')"
            raise ValueError(f"{name!r} is no directive of redis.conf and no argument of redis.Redis{hint}")
    return found


def parse(lines: Iterable[str]) -> dict[str, Any]:
    """Parse ``name=value`` lines of the ini file; yes, no, none and numbers become Python values.

    Raises ValueError: a line has another form.
    """
    options: dict[str, Any] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{line!r} is not of the form name=value")
        options[name.strip().replace("-", "_")] = _value(value.strip())
    return options


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        # 7.20 may be a version: convert only what reads the same as a number.
        try:
            if str(number(text)) == text:
                return number(text)
        except ValueError:
            continue
    return text


@functools.cache
def _server_arguments() -> set[str]:
    from .server import Server

    return {
        name
        for name, each in inspect.signature(Server.__init__).parameters.items()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    }


@functools.cache
def _directives() -> set[str]:
    from ..server.config.config import DIRECTIVES

    return {"user"} | {name.decode().replace("-", "_") for name in DIRECTIVES}


@functools.cache
def _client_names() -> set[str]:
    try:
        import redis
    except ModuleNotFoundError:
        return set()
    return {"like"} | set(inspect.signature(redis.Redis.__init__).parameters) - _NOT_FOR_CLIENTS
