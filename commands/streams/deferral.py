"""Defer a command until the macro nodes or the group that it needs are ready.

Redis' macro nodes are computed only on demand (see ``storage.streams.macro_nodes``), which takes seconds for a million
entries. The server computes them in steps between the requests of other clients, then runs the command. In a
transaction or a script it computes everything at once.

A group that loses very many pending entries (``BusyGroup``) works alike: the command that removes them ends at once,
and the next command that needs the group waits until they are gone.
"""

from __future__ import annotations

from typing import Final

from ...storage.groups.claiming import pass_lost
from ...storage.groups.consumer import Consumer
from ...storage.groups.group import Group
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..runtime.deferral import Deferred

MANY: Final = 10_000  # pending entries; more are removed in steps


def require_nodes(client: Client, stream: Stream, *, are_far: bool) -> None:
    """Defer the command until the macro nodes are computed, if that takes long and the client may wait.

    ``are_far``: many macro nodes are missing.
    Raises Deferred: the server re-runs the command later.
    """
    if are_far and client.may_block:
        raise Deferred(stream.macro_nodes.account_some)


def require_group(client: Client, group: Group) -> None:
    """Defer the command if the group has unfinished ``work``; if the client may not wait, finish the work now.

    Raises Deferred: the server re-runs the command later.
    """
    if group.work is not None:
        if client.may_block and not client.server.blocking.resuming:
            raise Deferred(group.work_some)
        group.finish_work()


def require_order(
    client: Client, group: Group, consumer: Consumer | None = None, *, by_time: bool = False
) -> None:
    """Defer the command if it must first build or clean a long order of pending entries and the client may wait.

    Raises Deferred: the server re-runs the command later.

    Args:
        group: a group without ``work``.
        consumer: the owner of the entries; None: all consumers.
        by_time: the command needs the order by delivery time, else the order by ID.
    """
    work = group.pel.long_work(consumer, by_time=by_time)
    if work is not None and client.may_block and not client.server.blocking.resuming:
        raise Deferred(group.do_later(work))


def require_claimable(client: Client, group: Group, stream: Stream, latest: int) -> None:
    """Like ``require_order`` by time; also let the search skip idle pending entries that the stream no longer has.

    ``latest`` is the latest delivery time (ms) of entries that are idle for long enough.
    """
    require_order(client, group, by_time=True)
    if stream.entries_added > stream.length:
        work = pass_lost(group, stream, latest)
        for _ in work:
            if client.may_block and not client.server.blocking.resuming:
                raise Deferred(group.do_later(work))


def require_groups(client: Client, stream: Stream) -> None:
    """Raise ``Deferred`` unless all groups of a stream are ready, with their orders by ID, or the client may not wait."""
    for group in stream.groups.values():
        require_group(client, group)
        require_order(client, group)


def removes_in_steps(client: Client, number: int) -> bool:
    """Return True if so many pending entries should be removed in steps, and the client may wait."""
    return number > MANY and client.may_block
