"""Replay the commands of an append-only file. They run like those of clients, but are neither checked nor counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.spec.command import handler_for
from ...commands.spec.versions import NEWEST, compat_with
from ...protocol.errors import ReplyError
from ...storage.streams.chunk import DamagedError
from ..execution.command_entry import CommandEntry
from ..server import Server
from .joined_claims import join_claims
from .settled_claims import SettledClaims

if TYPE_CHECKING:
    from ...commands.spec.command import Handler
    from ...storage.aof.loader import AofLoader

_NEWEST: Final = compat_with(NEWEST)
_BRACKETS: Final = frozenset(("multi", "exec"))


class LoaderClient(Client):
    """The internal client that runs the commands of an append-only file."""

    __slots__ = ()

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.trusted = self.replays = self.authenticated = True


def replay(server: Server, loader: AofLoader, client: LoaderClient, batch: list[list[bytes]]) -> None:
    """Run a batch of commands from an append-only file; MULTI and EXEC do nothing, because transactions are complete.

    Raises AofError: a command is unknown, has too few arguments, or meets a damaged value of the base.
    """
    try:
        _replay(server, loader, client, batch)
    except DamagedError as error:
        raise loader.damaged_value(error) from error


def _replay(server: Server, loader: AofLoader, client: LoaderClient, batch: list[list[bytes]]) -> None:
    dispatcher = server.dispatcher
    # Files may have commands newer than compat-version: HPEXPIREAT, say, if a file or an earlier version brought field expiries.
    table, find = dispatcher.table, dispatcher.find_of_any_version
    claims = SettledClaims(client, batch, partial(_replay, server, loader, client))
    at = 0
    while at < len(batch):
        argv = batch[at]
        at += 1
        try:
            entry = table.get(argv[0]) or find(argv)
        except ReplyError as error:
            raise loader.unknown_command(argv[0]) from error
        if entry.name in _BRACKETS:
            continue
        if len(argv) < entry.minimum:
            raise loader.wrong_arity(entry.name)
        if entry.batch_handler is not None:
            answers = entry.batch_handler(client, batch, at - 1)
            if answers is not None:
                at += len(answers) - 1
                continue
        is_claim = entry.name == "xclaim"
        settled = claims.settle(at - 1) if is_claim else 0
        if settled:
            at += settled - 1
            continue
        # Check the next record first: in a file of workers that read one entry at a time, no record joins the next.
        if is_claim and at < len(batch) and batch[at][:3] == argv[:3]:
            joined = join_claims(batch, at - 1)
            if joined is not None:
                words, number = joined
                if not _reply(entry.handler, client, words).startswith(b"-"):
                    at += number - 1
                    continue
        reply = _reply(entry.handler, client, argv)
        if reply.startswith(b"-") and not _runs_as_newest(server, client, entry, argv):
            text = reply[1:].rstrip().decode("latin-1")
            server.log.warning(f"AOF: '{entry.name}' answered an error while being replayed: {text}")


def _reply(handler: Handler, client: LoaderClient, argv: list[bytes]) -> bytes:
    try:
        return handler(client, argv) or b""
    except ReplyError as error:
        return error.encoded


def _runs_as_newest(server: Server, client: LoaderClient, entry: CommandEntry, argv: list[bytes]) -> bool:
    """Run a failed command as in the newest version, because it may have options that are newer than compat-version.

    A script is not rerun: it may have changed data before it failed.
    """
    if server.compat == _NEWEST or entry.command.group == "scripting":
        return False
    compat, server.compat = server.compat, _NEWEST
    try:
        handler = handler_for(entry.command, _NEWEST.knows)
        return not _reply(handler, client, argv).startswith(b"-")
    finally:
        server.compat = compat
