"""Handlers that take the place of others while the server answers as an older version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ..streams.v7_0 import making_consumers_late

if TYPE_CHECKING:
    from ..runtime.client import Client
    from ..spec.command import Handler
    from ..spec.versions import Compat

_IDMP_PARAMETERS: Final = (b"stream-idmp-duration", b"stream-idmp-maxsize")


_NEWER_EVENTS: Final = {"8.2": b"oc", "8.8": b"STIV"}  # letters of notify-keyspace-events


def handler_of(compat: Compat, name: str, handler: Handler) -> Handler:
    """The handler for a command (by its full name) in a version: its own, unless that version had other habits."""
    if not compat.consumers_of_nothing:
        if name == "xreadgroup":
            from ..streams.v7_0 import xreadgroup_7_0

            return xreadgroup_7_0
        if name in {"xclaim", "xautoclaim"}:
            return making_consumers_late(handler)
    if name == "config|set" and not compat.knows("8.8"):
        return _setting_older_parameters(compat, handler)
    if name == "config|get" and not compat.knows("8.6"):
        return _getting_older_parameters(handler)
    if name.endswith("|help") and not compat.print_this_help:
        return _printing_help(handler)
    return handler


def _setting_older_parameters(compat: Compat, handler: Handler) -> Handler:
    """CONFIG SET before there was IDMP, and before some classes of notify-keyspace-events."""
    unknown = b"".join(letters for since, letters in _NEWER_EVENTS.items() if not compat.knows(since))
    hiding = bytes.maketrans(unknown, b"?" * len(unknown))

    def config_set(client: Client, args: list[bytes]) -> bytes | None:
        for at in range(2, len(args) - 1, 2):
            name = args[at].lower()
            if name in _IDMP_PARAMETERS and not compat.knows("8.6"):
                raise ReplyError(
                    b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % shown(args[at])
                )
            if name == b"notify-keyspace-events":
                args = args.copy()
                args[at + 1] = args[at + 1].translate(hiding)
        try:
            return handler(client, args)
        except ReplyError as error:
            if compat.knows("8.2"):
                raise
            raise ReplyError(
                error.text.replace(b"Use 'Ag$lshzxeKEtmdnoc'", b"Use 'Ag$lshzxeKEtmdn'")
            ) from None

    return config_set


def _getting_older_parameters(handler: Handler) -> Handler:
    """CONFIG GET before there was IDMP."""

    def config_get(client: Client, args: list[bytes]) -> bytes | None:
        reply = handler(client, args)
        if reply is None or not any(name in reply for name in _IDMP_PARAMETERS):
            return reply
        found = client.server.config.get(args[2:])
        pairs = [(name, replies.bulk(value)) for name, value in found.items() if name not in _IDMP_PARAMETERS]
        return replies.map_of(pairs, client.resp)

    return config_get


def _printing_help(handler: Handler) -> Handler:
    def answer(client: Client, args: list[bytes]) -> bytes | None:
        reply = handler(client, args)
        return None if reply is None else reply.replace(b"+    Print this help.", b"+    Prints this help.")

    return answer
