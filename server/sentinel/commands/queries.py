"""SENTINEL's subcommands that show its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....commands.runtime.arguments import parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....commands.spec.usage import help_of
from ....protocol import replies
from ....protocol.errors import ReplyError
from . import specs
from .shared import state_of

if TYPE_CHECKING:
    from ..state import Instance, Master, Replica, Sentinel


def named_master(client: Client, name: bytes) -> Master:
    """Return the monitored master with this name; raise ReplyError if there is none."""
    master = state_of(client.server).masters.get(name)
    if master is None:
        raise ReplyError(b"ERR No such master with that name")
    return master


@handles(specs.MASTERS)
def masters(client: Client, _args: list[bytes]) -> bytes:
    """Reply with an array of maps, one for each monitored master."""
    sentinel = state_of(client.server)
    return replies.array([_shown(client, _master(sentinel, each)) for each in sentinel.masters.values()])


@handles(specs.MASTER)
def master(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map of names to texts for one master."""
    return _shown(client, _master(state_of(client.server), named_master(client, args[2])))


@handles(specs.REPLICAS, specs.SLAVES)
def replicas(client: Client, args: list[bytes]) -> bytes:
    """Reply with an array of maps, one for each replica of a master."""
    sentinel = state_of(client.server)
    found = named_master(client, args[2]).replicas.values()
    return replies.array([_shown(client, _replica(sentinel, each)) for each in found])


@handles(specs.SENTINELS)
def sentinels(client: Client, args: list[bytes]) -> bytes:
    """Reply with an empty array: there are no other sentinels."""
    named_master(client, args[2])
    return replies.EMPTY_ARRAY


@handles(specs.GET_MASTER_ADDR_BY_NAME)
def get_master_addr_by_name(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[host, port]``, or null for an unknown name."""
    found = state_of(client.server).masters.get(args[2])
    if found is None:
        return replies.null_array(client.resp)
    return replies.bulk_array((found.current.host.encode(), b"%d" % found.current.port))


@handles(specs.CKQUORUM)
def ckquorum(client: Client, args: list[bytes]) -> bytes:
    """Reply OK if the quorum of a master is 1, else with the error NOQUORUM: this sentinel is the only one."""
    quorum = named_master(client, args[2]).settings.quorum
    if quorum > 1:
        raise ReplyError(
            b"NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this "
            b"master"
        )
    return replies.simple(b"OK 1 usable Sentinels. Quorum and failover authorization can be reached")


@handles(specs.MYID)
def myid(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the ID of this sentinel, 40 hexadecimal digits."""
    return replies.bulk(state_of(client.server).my_id.encode())


@handles(specs.PENDING_SCRIPTS)
def pending_scripts(_client: Client, _args: list[bytes]) -> bytes:
    """Reply with an empty array: there are no scripts."""
    return replies.EMPTY_ARRAY


@handles(specs.INFO_CACHE)
def info_cache(client: Client, args: list[bytes]) -> bytes:
    """Reply with the last INFO of the named masters and their replicas.

    The reply has the name of each master, then ``[[age in milliseconds, INFO] …]``.
    """
    sentinel = state_of(client.server)
    items: list[bytes] = []
    for name, found in sentinel.masters.items():
        if name in args[2:]:
            cached = [_cached(client, sentinel, each) for each in found.instances]
            items += [replies.bulk(name), replies.array(cached)]
    return replies.array(items)


def _cached(client: Client, sentinel: Sentinel, instance: Instance) -> bytes:
    if instance.info_at is None:
        return replies.array([replies.integer(0), replies.null(client.resp)])
    age = int((sentinel.monitor.now - instance.info_at) * 1000)
    return replies.array([replies.integer(age), replies.bulk(instance.info)])


@handles(specs.IS_MASTER_DOWN_BY_ADDR)
def is_master_down_by_addr(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[1 if the master is down, else 0, ID of the leader, its epoch]``.

    With a run ID, first vote for that sentinel in the given epoch. With ``*``, reply with the leader ``*`` and the epoch 0.
    """
    sentinel = state_of(client.server)
    port, epoch = parse_integer(args[3]), parse_integer(args[4])
    place = args[2].decode("latin-1"), port
    found = next((each for each in sentinel.masters.values() if (each.host, each.port) == place), None)
    leader, leader_epoch = b"*", 0
    if found is not None and args[5] != b"*":
        sentinel.vote(found, epoch, args[5].decode("latin-1"))
        leader, leader_epoch = found.leader.encode("latin-1"), found.leader_epoch
    is_down = found is not None and found.is_down
    return replies.array([replies.integer(int(is_down)), replies.bulk(leader), replies.integer(leader_epoch)])


handles(specs.HELP, container="sentinel")(help_of)


def _shown(client: Client, fields: Iterator[tuple[str, object]]) -> bytes:
    pairs = [
        (name.encode(), replies.bulk(str(value).encode("utf-8", "surrogateescape"))) for name, value in fields
    ]
    return replies.map_of(pairs, client.resp)


def _master(sentinel: Sentinel, master: Master) -> Iterator[tuple[str, object]]:
    settings = master.settings
    flags = {
        "s_down": master.is_down,
        "o_down": master.is_agreed_down,
        "master": True,
        "disconnected": not master.connected,
        "failover_in_progress": master.failover_state != "none",
        "force_failover": master.forced,
    }
    yield "name", master.name
    yield from _instance(sentinel, master, flags, settings.down_after, master.failover_state)
    yield "config-epoch", master.config_epoch
    yield "num-slaves", len(master.replicas)
    yield "num-other-sentinels", 0
    yield "quorum", settings.quorum
    yield "failover-timeout", settings.failover_timeout
    yield "parallel-syncs", settings.parallel_syncs


def _replica(sentinel: Sentinel, replica: Replica) -> Iterator[tuple[str, object]]:
    flags = {
        "s_down": replica.is_down,
        "slave": True,
        "disconnected": not replica.connected,
        "promoted": replica.promoted,
        f"reconf_{replica.turning}": bool(replica.turning),
    }
    yield "name", replica.address
    yield from _instance(sentinel, replica, flags, replica.master.settings.down_after)
    yield "master-link-down-time", replica.link_down_milliseconds
    yield "master-link-status", "ok" if replica.link_up else "err"
    yield "master-host", replica.master_host
    yield "master-port", replica.master_port
    yield "slave-priority", replica.priority
    yield "slave-repl-offset", replica.offset
    yield "replica-announced", int(replica.announced)


def _instance(
    sentinel: Sentinel, instance: Instance, flags: dict[str, bool], down_after: int, step: str = "none"
) -> Iterator[tuple[str, object]]:
    def since(time: float | None) -> int:
        return 0 if time is None else int((sentinel.monitor.now - time) * 1000)

    yield "ip", instance.host
    yield "port", instance.port
    yield "runid", instance.run_id
    yield "flags", ",".join(name for name, is_set in flags.items() if is_set)
    yield "link-pending-commands", instance.pending
    yield "link-refcount", 1
    if step != "none":
        yield "failover-state", step
    yield "last-ping-sent", since(instance.pinged)
    yield "last-ok-ping-reply", since(instance.last_ok)
    yield "last-ping-reply", since(instance.last_reply)
    if instance.is_down:
        yield "s-down-time", since(instance.down_since)
    yield "down-after-milliseconds", down_after
    yield "info-refresh", since(instance.info_at)
    yield "role-reported", instance.role
    yield "role-reported-time", since(instance.role_since)
