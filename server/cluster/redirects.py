"""Decide by the slots of its keys whether a node runs a command, and which error the client gets otherwise.

The order of the checks is that of Redis: the keys of a command must have one slot, a node must serve it, the cluster
must be up; then come moving slots, reads from replicas, and MOVED for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.scripting.lua.script_run import ANY_SLOT, ScriptClient
from ...commands.spec.command import keys_of
from ...protocol.errors import ReplyError
from ...protocol.key_slots import key_slot
from .endpoints import address

if TYPE_CHECKING:
    from ...commands.runtime.context import CommandEntry
    from .membership import Membership

CROSSSLOT: Final = b"CROSSSLOT Keys in request don't hash to the same slot"
NOT_SERVED: Final = b"CLUSTERDOWN Hash slot not served"
DOWN: Final = b"CLUSTERDOWN The cluster is down"
DOWN_FOR_WRITES: Final = b"CLUSTERDOWN The cluster is down and only accepts read commands"
TRYAGAIN: Final = b"TRYAGAIN Multiple keys request during rehashing of slot"

_NOT_LOCAL: Final = b"ERR Script attempted to access a non local key in a cluster node"
_OTHER_SLOT: Final = b"ERR Script attempted to access keys that do not hash to the same slot"
# The errors in scripts, from 8.0 on; before, all of these are _NOT_LOCAL.
_IN_SCRIPTS: Final = {
    CROSSSLOT: b"ERR Command '%b' in script attempted to access keys that don't hash to the same slot",
    NOT_SERVED: b"ERR Script attempted to access a slot not served",
    TRYAGAIN: b"ERR Unable to execute command '%b' in script because undeclared keys were accessed during rehashing "
    b"of the slot",
}
_DOWN_IN_SCRIPTS: Final = {
    DOWN: b"ERR Script attempted to execute a command while the cluster is down",
    DOWN_FOR_WRITES: b"ERR Script attempted to execute a write command while the cluster is down and readonly",
}

_CODES: Final = frozenset((b"MOVED", b"ASK", b"TRYAGAIN", b"CROSSSLOT", b"CLUSTERDOWN"))


def is_redirection(text: bytes) -> bool:
    """Return True if a text is an error of cluster mode, such as MOVED, which EXEC returns unchanged."""
    return text.partition(b" ")[0] in _CODES


@dataclass(slots=True)
class _Request:
    """A command, or a transaction, that a node is to run."""

    keys: Sequence[bytes]  # its keys and shard channels
    channels: bool  # all of its keys are shard channels
    reads: bool  # it only reads
    migrates: bool  # it is MIGRATE, which may use a moving slot
    asks: bool  # it may use a slot that is being imported


def refusal(place: Membership, client: Client, entry: CommandEntry, argv: list[bytes]) -> bytes | None:
    """Return the text of the error that a command gets on a node of a cluster; None if it may run here.

    It also consumes the client's ASKING, which applies to one command.
    """
    if client.transaction is None and not client.is_script:
        client.asked, client.asking = client.asking, False
    if client.trusted:
        return None
    if client.is_script and entry.write and place.server.replication.is_readonly:
        return None  # a later check refuses it, which has priority in scripts
    request = _request(client, entry, argv)
    if request is None:
        return None
    slots = {key_slot(key) for key in request.keys}
    text = _answer(place, client, request, slots)
    if isinstance(client, ScriptClient):
        return _in_script(client, entry, text, slots)
    return text


def refusal_of_waiter(
    place: Membership, client: Client, entry: CommandEntry, argv: list[bytes]
) -> bytes | None:
    """Return the encoded error that unblocks a client after a change of the topology; None if it may stay blocked."""
    request = _request(client, entry, argv)
    if request is None or request.migrates or client.trusted:
        return None
    assert place.node is not None
    node, slot = place.node, key_slot(request.keys[0])
    if slot in node.shard.importing or slot in node.shard.migrating:
        return None
    text = _answer(place, client, request, {slot})
    return None if text is None else ReplyError(text).encoded


def refusal_of_resumed(
    place: Membership, client: Client, entry: CommandEntry, argv: list[bytes]
) -> bytes | None:
    """Return the text of the error for a blocked command that is about to re-run; None if it may run here."""
    request = _request(client, entry, argv) if place.node is not None else None
    return None if request is None else _answer(place, client, request, {key_slot(request.keys[0])})


def _request(client: Client, entry: CommandEntry, argv: list[bytes]) -> _Request | None:
    """Return the request of a command; None if it has no keys."""
    commands = [(entry, argv)]
    if entry.name == "exec":
        commands = client.transaction.commands if client.transaction is not None else []
    keys: list[bytes] = []
    channels = True
    for each, words in commands:
        for reference in keys_of(each.command, words):
            keys.append(words[reference.index])
            channels = channels and "not_key" in reference.flags
    if not keys or (entry.name == "sunsubscribe" and client.server.compat.knows("8.4")):
        return None
    return _Request(
        keys,
        channels,
        reads=not any(each.write for each, _ in commands),
        migrates=entry.name == "migrate",
        asks=client.asked or "asking" in entry.command.flags,
    )


def _answer(place: Membership, client: Client, request: _Request, slots: set[int]) -> bytes | None:
    topology, node, config = place.topology, place.node, place.server.config
    assert node is not None
    if len(slots) > 1:
        return CROSSSLOT
    (slot,) = slots
    owner = topology.owners[slot]
    if owner is None:
        return NOT_SERVED
    if not place.is_ok:
        if request.channels:
            if not config.cluster_allow_pubsubshard_when_down:
                return DOWN
        elif not config.cluster_allow_reads_when_down:
            return DOWN
        elif not request.reads:
            return DOWN_FOR_WRITES
    shard = node.shard
    if node.is_master:
        moving = slot in shard.migrating if owner is shard else slot in shard.importing
        if moving and request.migrates:
            return None
        if owner is shard:
            return _where_keys_left(place, client, request, slot) if moving else None
        if moving and request.asks:
            several = len(set(request.keys)) > 1
            return TRYAGAIN if several and _missing(client, request) else None
    elif owner is shard and (request.channels or (client.reads_replica and request.reads)):
        return None
    return b"MOVED %d %b" % (slot, address(place.server, owner.master))


def _where_keys_left(place: Membership, client: Client, request: _Request, slot: int) -> bytes | None:
    """Return the error for a slot that is migrating from this node to another; None if all keys are still here."""
    missing = 0 if request.channels else _missing(client, request)
    if not missing:
        return None
    if missing < len(request.keys):
        return TRYAGAIN
    assert place.node is not None
    target = place.node.shard.migrating[slot].master
    return b"ASK %d %b" % (slot, address(place.server, target))


def _missing(client: Client, request: _Request) -> int:
    """Return how many of the keys do not exist here."""
    entries, is_due = client.db.entries, client.db.is_due
    return sum(key not in entries or is_due(key) for key in request.keys)


def _in_script(
    client: ScriptClient, entry: CommandEntry, text: bytes | None, slots: set[int]
) -> bytes | None:
    """Return the error that a command gets in a script; None if it may run."""
    if text is None:
        return _of_another_slot(client, *slots)
    if text in _DOWN_IN_SCRIPTS:
        return _DOWN_IN_SCRIPTS[text]
    found = _IN_SCRIPTS.get(text) if client.server.compat.knows("8.0") else None
    if found is None:
        return _NOT_LOCAL
    return found.replace(b"%b", entry.name.encode())


def _of_another_slot(client: ScriptClient, slot: int) -> bytes | None:
    """Restrict a script with a shebang to one slot, unless its flags allow more."""
    if client.slot is None:
        return None
    if client.slot not in {slot, ANY_SLOT}:
        return _OTHER_SLOT
    client.slot = slot
    return None
