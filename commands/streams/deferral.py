"""Defer a command until the macro nodes or the group that it needs are ready.

Redis' macro nodes are computed only when somebody asks for them (see ``storage.streams.macro_nodes``), which for a million
entries takes seconds. The server computes them in pieces between the requests of others, and then runs the command. In a
transaction or a script everything is computed at once.

A group that loses very many pending entries (``Group.pending_cleanup``) is treated in the same way: the command
that removes them is done, and the next command that needs the group waits until they are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..runtime.deferral import Deferred

if TYPE_CHECKING:
    from ...storage.groups.group import Group
    from ...storage.streams.stream import Stream
    from ..runtime.client import Client

MANY: Final = 10_000  # pending entries; fewer go at once


def require_all_nodes(client: Client, stream: Stream) -> None:
    """Go on only if all macro nodes of a stream can be told soon."""
    _require(stream.is_behind, client, stream)


def require_nodes_up_to(client: Client, stream: Stream, stream_ids: list[int]) -> None:
    """Go on only if the nodes that hold some entries can be told soon."""
    _require(stream.is_far(max(stream_ids)), client, stream)


def require_nodes_for_trim(
    client: Client, stream: Stream, by_length: bool, threshold: int, limit: int
) -> None:
    """Go on only if the border up to which a stream is to be trimmed can be told soon."""
    _require(stream.trims_far(by_length, threshold, limit), client, stream)


def _require(far: bool, client: Client, stream: Stream) -> None:
    if far and client.may_block:
        raise Deferred(stream.settle_some)


def require_group(client: Client, group: Group) -> None:
    """Continue only if a group has no ``pending_cleanup``, or the client may not wait: then the group finishes it."""
    if group.pending_cleanup is not None and client.may_block and not client.server.blocking.resuming:
        raise Deferred(group.clean_up_some)


def require_groups(client: Client, stream: Stream) -> None:
    """The same for all groups of a stream."""
    for group in stream.groups.values():
        require_group(client, group)


def let_go_later(client: Client, number: int) -> bool:
    """Whether so many pending entries are to go bit by bit, if they can."""
    return number > MANY and client.may_block
