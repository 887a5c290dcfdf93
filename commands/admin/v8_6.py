"""CONFIG as it was up to 8.6: without the parameters of IDMP, and with fewer classes of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ..spec.command import handles
from . import config, specs

if TYPE_CHECKING:
    from ..runtime.client import Client

_IDMP_PARAMETERS: Final = (b"stream-idmp-duration", b"stream-idmp-maxsize")
_POLICIES: Final = (b"volatile-lrm", b"allkeys-lrm")  # of maxmemory-policy, since 8.6
_NEWER_EVENTS: Final = {"8.2": b"oc", "8.8": b"STIV"}  # letters of notify-keyspace-events


@handles(specs.CONFIG_SET, until="8.8")
def config_set(client: Client, args: list[bytes]) -> bytes | None:
    """Set parameters, but none of those that came later."""
    compat = client.server.compat
    unknown = b"".join(letters for since, letters in _NEWER_EVENTS.items() if not compat.knows(since))
    hiding = bytes.maketrans(unknown, b"?" * len(unknown))
    for at in range(2, len(args) - 1, 2):
        name = args[at].lower()
        if name in _IDMP_PARAMETERS and not compat.knows("8.6"):
            raise ReplyError(
                b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % shown(args[at])
            )
        if name == b"notify-keyspace-events":
            args = args.copy()
            args[at + 1] = args[at + 1].translate(hiding)
        if name == b"maxmemory-policy" and args[at + 1].lower() in _POLICIES and not compat.knows("8.6"):
            args = args.copy()
            args[at + 1] = b"unknown"
    try:
        return config.config_set(client, args)
    except ReplyError as error:
        text = error.text
        if not compat.knows("8.6"):
            for policy in _POLICIES:
                text = text.replace(policy + b", ", b"")
        if not compat.knows("8.2"):
            text = text.replace(b"Use 'Ag$lshzxeKEtmdnoc'", b"Use 'Ag$lshzxeKEtmdn'")
        raise ReplyError(text) from None


@handles(specs.CONFIG_GET, until="8.6")
def config_get(client: Client, args: list[bytes]) -> bytes | None:
    """Return parameters, but none of those that came later."""
    reply = config.config_get(client, args)
    if reply is None or not any(name in reply for name in _IDMP_PARAMETERS):
        return reply
    found = client.server.config.get(args[2:])
    pairs = [(name, replies.bulk(value)) for name, value in found.items() if name not in _IDMP_PARAMETERS]
    return replies.map_of(pairs, client.resp)
