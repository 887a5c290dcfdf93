"""MIGRATE: move keys to another server; the transfer itself is in ``server/net/migration``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...protocol import replies
from ...protocol.atoi import atoi
from ...protocol.errors import SYNTAX, ReplyError
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs

_LARGEST_PORT: Final = 0xFFFF
_DEFAULT_TIMEOUT: Final = 1000  # milliseconds
_FIRST_OPTION: Final = 6


@dataclass(frozen=True, slots=True)
class Migration:
    """A parsed MIGRATE: the target, the keys and the options."""

    host: str
    port: int  # negative if it is out of range, so that the connection fails
    database: int  # the database of the target; -1: send no SELECT, so its connections stay in database 0
    timeout: int  # the timeout of each step, in milliseconds
    keys: list[bytes]
    copy: bool  # the keys stay on this server
    replace: bool  # keys of the target are overwritten
    credentials: list[bytes]  # a password, or a user and a password; empty for none


@handles(specs.MIGRATE)
def migrate(client: Client, args: list[bytes]) -> bytes | None:
    """Move keys to another server, or copy them; reply NOKEY if none exists.

    The client is blocked until the target has confirmed the keys and they are deleted here.
    """
    copy = replace = False
    credentials: list[bytes] = []
    keys = [args[3]]
    at = _FIRST_OPTION
    while at < len(args):
        option, more = args[at].upper(), len(args) - at - 1
        if option == b"COPY":
            copy = True
        elif option == b"REPLACE":
            replace = True
        elif option == b"AUTH" and more >= 1:
            credentials = args[at + 1 : at + 2]
            at += 1
        elif option == b"AUTH2" and more >= 2:
            credentials = args[at + 1 : at + 3]
            at += 2
        elif option == b"KEYS":
            if args[3]:
                raise ReplyError(
                    b"ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"
                )
            keys = args[at + 1 :]
            break
        else:
            raise ReplyError(SYNTAX)
        at += 1
    timeout = parse_integer(args[5])
    database = parse_integer(args[4])
    keys = list(dict.fromkeys([key for key in keys if client.db.read(key) is not None]))
    if not keys:
        return replies.simple(b"NOKEY")
    if client.in_exec or client.is_script or not client.may_block:
        raise ReplyError(
            b"ERR MIGRATE waits for another server: it runs neither in a transaction nor in a script"
        )
    port = atoi(args[2])
    client.server.migrations.start(
        client,
        args,
        Migration(
            host=args[1].decode("utf-8", "surrogateescape"),
            port=min(port, port & _LARGEST_PORT),
            database=database,
            timeout=timeout if timeout > 0 else _DEFAULT_TIMEOUT,
            keys=keys,
            copy=copy,
            replace=replace,
            credentials=credentials,
        ),
    )
    return None
