"""CLUSTER's subcommands for the owners of slots: ADDSLOTS, DELSLOTS, FLUSHSLOTS and SETSLOT; and SLOT-STATS.

All nodes see a change at once, so it is enough to send it to one of them; redis-cli sends it to several and finds it
done there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final

from ....commands.runtime.arguments import Arguments, parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import ReplyError, wrong_arity, wrong_subcommand_arguments
from ....protocol.key_slots import SLOTS, key_slot
from ..topology import Node
from . import specs
from .handlers import known_node, place_of

if TYPE_CHECKING:
    from ..membership import Membership

_INVALID_SLOT: Final = b"ERR Invalid or out of range slot"
_INVALID_ACTION: Final = b"ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"


def slot_number(word: bytes) -> int:
    """Parse a slot number, 0 to 16383; raise ReplyError if it is none."""
    slot = parse_integer(word, _INVALID_SLOT)
    if not 0 <= slot < SLOTS:
        raise ReplyError(_INVALID_SLOT)
    return slot


def slots_of_ranges(args: list[bytes], start: int = 2) -> Iterable[int]:
    """Return the slots of ranges, given as pairs ``first last``, both inclusive, from ``args[start]`` on.

    Raises ReplyError: a bound is missing or no slot number, or a range ends before it begins.
    """
    if (len(args) - start) % 2:
        raise wrong_arity(f"cluster|{args[1].lower().decode()}")
    bounds = [slot_number(word) for word in args[start:]]
    pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
    for first, last in pairs:
        if first > last:
            raise ReplyError(b"ERR start slot number %d is greater than end slot number %d" % (first, last))
    return chain.from_iterable(range(first, last + 1) for first, last in pairs)


def _checked(place: Membership, slots: Iterable[int], *, owned: bool) -> list[int]:
    """Return the slots if each occurs once, and all have an owner or all have none; else raise ReplyError."""
    seen: dict[int, None] = {}
    for slot in slots:
        if (place.topology.owners[slot] is not None) is not owned:
            state = b"already unassigned" if owned else b"already busy"
            raise ReplyError(b"ERR Slot %d is %b" % (slot, state))
        if slot in seen:
            raise ReplyError(b"ERR Slot %d specified multiple times" % slot)
        seen[slot] = None
    return list(seen)


def _slots(args: list[bytes], *, ranges: bool) -> Iterable[int]:
    return slots_of_ranges(args) if ranges else map(slot_number, args[2:])


@handles(specs.CLUSTER_ADDSLOTS, ranges=False)
@handles(specs.CLUSTER_ADDSLOTSRANGE, ranges=True)
def cluster_addslots(client: Client, args: list[bytes], *, ranges: bool) -> bytes:
    """Assign the given slots to this node and reply OK; assign none if one of them is refused."""
    place, node = place_of(client)
    place.topology.assign(_checked(place, _slots(args, ranges=ranges), owned=False), node.shard)
    return replies.OK


@handles(specs.CLUSTER_DELSLOTS, ranges=False)
@handles(specs.CLUSTER_DELSLOTSRANGE, ranges=True)
def cluster_delslots(client: Client, args: list[bytes], *, ranges: bool) -> bytes:
    """Take the given slots from their owners, whichever nodes those are; reply OK."""
    place, _ = place_of(client)
    place.topology.unassign(_checked(place, _slots(args, ranges=ranges), owned=True))
    return replies.OK


@handles(specs.CLUSTER_FLUSHSLOTS)
def cluster_flushslots(client: Client, _args: list[bytes]) -> bytes:
    """Take all slots from this node and reply OK; refuse while it has keys."""
    place, node = place_of(client)
    if len(client.server.keyspace.databases[0]):
        raise ReplyError(b"ERR DB must be empty to perform CLUSTER FLUSHSLOTS.")
    if node.is_master:
        place.topology.unassign(place.topology.slots_of(node.shard))
    return replies.OK


@handles(specs.CLUSTER_SETSLOT)
def cluster_setslot(client: Client, args: list[bytes]) -> bytes:
    """Set the state of a slot and reply OK.

    To move a slot, send IMPORTING to the target, MIGRATING to the source and, after the keys have moved, NODE. STABLE
    cancels the move.
    """
    place, node = place_of(client)
    if not node.is_master:
        raise ReplyError(b"ERR Please use SETSLOT only with masters.")
    slot = slot_number(args[2])
    action = args[3].upper()
    if action == b"STABLE" and len(args) == 4:
        with place.topology.changing():
            node.shard.migrating.pop(slot, None)
            node.shard.importing.pop(slot, None)
    elif len(args) != 5:
        raise ReplyError(_INVALID_ACTION)
    elif action == b"MIGRATING":
        if place.topology.owners[slot] is not node.shard:
            raise ReplyError(b"ERR I'm not the owner of hash slot %d" % slot)
        target = _other_end(place, args[4])
        with place.topology.changing():
            node.shard.migrating[slot] = target.shard
    elif action == b"IMPORTING":
        if place.topology.owners[slot] is node.shard:
            raise ReplyError(b"ERR I'm already the owner of hash slot %d" % slot)
        source = _other_end(place, args[4])
        with place.topology.changing():
            node.shard.importing[slot] = source.shard
    elif action == b"NODE":
        _give(place, node, slot, _master(known_node(place, args[4])))
    else:
        raise ReplyError(_INVALID_ACTION)
    return replies.OK


def _other_end(place: Membership, word: bytes) -> Node:
    node = place.topology.find(word.decode("latin-1"))
    if node is None:
        raise ReplyError(b"ERR I don't know about node %b" % word)
    return _master(node)


def _master(node: Node) -> Node:
    if not node.is_master:
        raise ReplyError(b"ERR Target node is not a master")
    return node


def _give(place: Membership, node: Node, slot: int, to: Node) -> None:
    """End the move of a slot; refuse while this node still has keys of the slot."""
    if place.topology.owners[slot] is node.shard and to is not node and any(place.keys_in(slot)):
        raise ReplyError(
            b"ERR Can't assign hashslot %d to a different node while I still hold keys for this hash slot."
            % slot
        )
    place.topology.assign([slot], to.shard)


@handles(specs.CLUSTER_SLOT_STATS)
def cluster_slot_stats(client: Client, args: list[bytes]) -> bytes:
    """Reply with ``[slot, {"key-count": n}]`` for each slot of this node in a range, or ordered by the number of keys."""
    place, node = place_of(client)
    kind = args[2].upper()
    if kind == b"SLOTSRANGE" and len(args) == 5:
        first, last = slot_number(args[3]), slot_number(args[4])
        if first > last:
            raise ReplyError(b"ERR Start slot number %d is greater than end slot number %d" % (first, last))
        limit, descending, ordered = SLOTS, False, False
    elif kind == b"ORDERBY":
        first, last = 0, SLOTS - 1
        limit, descending = _order(args)
        ordered = True
    else:
        raise wrong_subcommand_arguments(args)
    counts = Counter(map(key_slot, client.server.keyspace.databases[0].visible_keys()))
    slots = [slot for slot in range(first, last + 1) if place.topology.owners[slot] is node.shard]
    if not node.is_master:
        slots = []
    if ordered:
        slots.sort(key=counts.__getitem__, reverse=descending)
    return replies.array([_slot_stats(slot, counts[slot], client.resp) for slot in slots[:limit]])


def _order(args: list[bytes]) -> tuple[int, bool]:
    """Return LIMIT, and True if the largest comes first."""
    if args[3].lower() != b"key-count":
        raise ReplyError(b"ERR Unrecognized sort metric for ORDERBY.")
    limit, descending = SLOTS, True
    options = Arguments(args, 4)
    while options:
        if options.remaining > 1 and options.take(b"LIMIT"):
            limit = parse_integer(options.next())
            if not 1 <= limit <= SLOTS:
                raise ReplyError(b"ERR Limit has to lie in between 1 and 16384 (maximum number of slots).")
        elif options.take(b"ASC"):
            descending = False
        elif options.take(b"DESC"):
            descending = True
        else:
            raise ReplyError(b"ERR syntax error")
    return limit, descending


def _slot_stats(slot: int, keys: int, resp: int) -> bytes:
    fields = replies.map_of([(b"key-count", replies.integer(keys))], resp)
    return replies.array([replies.integer(slot), fields])
