"""Defer a command until the macro nodes or the group that it needs are ready.

Redis' macro nodes are computed only when somebody asks for them (see ``storage.streams.macro_nodes``), which for a million
entries takes seconds. The server computes them in pieces between the requests of others, and then runs the command. In a
transaction or a script everything is computed at once.

A group that loses very many pending entries (``BusyGroup``) is treated in the same way: the command that removes them is
done, and the next command that needs the group waits until they are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...storage.groups.claiming import pass_lost
from ..runtime.deferral import Deferred

if TYPE_CHECKING:
    from ...storage.groups.group import Group
    from ...storage.groups.pending import Consumer
    from ...storage.streams.stream import Stream
    from ..runtime.client import Client

MANY: Final = 10_000  # pending entries; more are removed in steps


def require_nodes(client: Client, stream: Stream, *, are_far: bool) -> None:
    """Continue only if the macro nodes that a command needs can be known soon, or the client may not wait."""
    if are_far and client.may_block:
        raise Deferred(stream.macro_nodes.settle_some)


def require_group(client: Client, group: Group) -> None:
    """Continue only if a group has no ``work``; if the client may not wait, finish it."""
    if group.work is not None:
        if client.may_block and not client.server.blocking.resuming:
            raise Deferred(group.work_some)
        group.finish_work()


def require_order(
    client: Client, group: Group, consumer: Consumer | None = None, *, by_time: bool = False
) -> None:
    """Continue only if a look at an order of a group's pending entries takes no time, or the client may not wait.

    Args:
        client: asks for the look.
        group: has no ``work``.
        consumer: whose entries are looked at; None: anybody's.
        by_time: the look is at the order by delivery time, otherwise by ID.
    """
    work = group.pel.long_work(consumer, by_time=by_time)
    if work is not None and client.may_block and not client.server.blocking.resuming:
        raise Deferred(group.do_later(work))


def require_claimable(client: Client, group: Group, stream: Stream, latest: int) -> None:
    """As ``require_order`` by time, and pass over the longest idle entries that the stream has lost."""
    require_order(client, group, by_time=True)
    if stream.entries_added > stream.length:
        work = pass_lost(group, stream, latest)
        for _ in work:
            if client.may_block and not client.server.blocking.resuming:
                raise Deferred(group.do_later(work))


def require_groups(client: Client, stream: Stream) -> None:
    """Continue only if all groups of a stream are ready, to be looked at by ID, too."""
    for group in stream.groups.values():
        require_group(client, group)
        require_order(client, group)


def removes_in_steps(client: Client, number: int) -> bool:
    """Whether so many pending entries are removed in steps: only for a client that may block."""
    return number > MANY and client.may_block
