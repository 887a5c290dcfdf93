"""CLUSTER MIGRATION: move slots with all their keys in one step, so that ASK sends no client back and forth."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import ReplyError, wrong_arity
from ..topology import Node, SlotTask
from . import specs
from .handlers import place_of
from .slot_commands import slots_of_ranges

if TYPE_CHECKING:
    from ..membership import Membership

_ARITY: Final = wrong_arity("cluster|migration")
NOT_STABLE: Final = b"all slot states must be STABLE to start a slot migration task."
_UNKNOWN: Final = ReplyError(b"ERR unknown argument")


@handles(specs.CLUSTER_MIGRATION)
def cluster_migration(client: Client, args: list[bytes]) -> bytes:
    """Handle IMPORT, STATUS and CANCEL of moves.

    IMPORT moves slots here and replies with the ID of the task. STATUS replies with a map for each task, CANCEL with 0: a
    task ends before a client can cancel it.
    """
    place, node = place_of(client)
    action, what = args[2].upper(), args[3].upper()
    if action == b"IMPORT":
        return _import(place, node, args)
    if action not in {b"STATUS", b"CANCEL"} or what not in {b"ALL", b"ID"}:
        raise _UNKNOWN
    if len(args) != (5 if what == b"ID" else 4):
        raise _ARITY
    if action == b"CANCEL":
        return replies.ZERO  # every task is over as soon as it can be cancelled
    wanted = None if what == b"ALL" else args[4].decode("latin-1")
    tasks = [
        task
        for task in place.topology.tasks
        if node in {task.source, task.target} and wanted in {None, task.id}
    ]
    return replies.array([_status(task, node, client.resp) for task in tasks])


def _import(place: Membership, node: Node, args: list[bytes]) -> bytes:
    if not node.is_master:
        raise ReplyError(b"ERR slot migration not allowed on replica.")
    slots: dict[int, None] = {}
    for slot in slots_of_ranges(args, 3):
        if slot in slots:
            raise ReplyError(b"ERR Slot %d specified multiple times" % slot)
        slots[slot] = None
    if node.shard.migrating or node.shard.importing:
        raise ReplyError(b"ERR " + NOT_STABLE)
    owners = {slot: place.topology.owners[slot] for slot in slots}
    unowned = next((slot for slot, owner in owners.items() if owner is None), None)
    if unowned is not None:
        raise ReplyError(b"ERR slot has no owner: %d" % unowned)
    if len(set(owners.values())) > 1:
        raise ReplyError(b"ERR slots belong to different source nodes")
    if node.shard in owners.values():
        raise ReplyError(b"ERR this node is already the owner of the slot range")
    try:
        task = place.topology.move(sorted(slots), node, place.server.clock.now)
    except ValueError as error:
        raise ReplyError(f"ERR {error}".encode()) from None
    return replies.bulk(task.id.encode())


def _status(task: SlotTask, node: Node, resp: int) -> bytes:
    texts = {
        "id": task.id,
        "slots": " ".join(_ranges(task.slots)),
        "source": task.source.id,
        "dest": task.target.id,
        "operation": "import" if task.target is node else "migrate",
        "state": task.state,
        "last_error": task.error,
    }
    numbers = {
        "retries": 0,
        "create_time": task.created,
        "start_time": task.created,
        "end_time": task.ended,
        "write_pause_ms": task.write_pause if task.source is node else 0,
    }
    fields = [(name.encode(), replies.bulk(text.encode())) for name, text in texts.items()]
    fields += [(name.encode(), replies.integer(number)) for name, number in numbers.items()]
    return replies.map_of(fields, resp)


def _ranges(slots: list[int]) -> list[str]:
    found = []
    for _, run in groupby(enumerate(slots), lambda pair: pair[1] - pair[0]):
        numbers = [slot for _, slot in run]
        found.append(f"{numbers[0]}-{numbers[-1]}")
    return found


@handles(specs.CLUSTER_SYNCSLOTS)
def cluster_syncslots(client: Client, _args: list[bytes]) -> bytes:
    """Refuse this command, which Redis' nodes send each other: Rillet's do not."""
    place_of(client)
    raise ReplyError(
        b"ERR CLUSTER SYNCSLOTS is between nodes of Redis; a node of Rillet sends and takes none"
    )
