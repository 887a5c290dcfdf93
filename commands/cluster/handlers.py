"""CLUSTER and its companions, as a server that is no cluster node answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.errors import ReplyError
from ..spec.command import command, container
from . import specs as syntax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runtime.client import Client
    from ..spec.command import Argument

DISABLED: Final = b"ERR This instance has cluster support disabled"


def _refused(client: Client, args: list[bytes]) -> bytes:
    del client, args
    raise ReplyError(DISABLED)


# READONLY
@command(
    "READONLY",
    arity=1,
    flags="fast loading stale",
    categories="connection",
    since="3.0.0",
    group="cluster",
    complexity="O(1)",
    summary="Allows reading from a replica node of a cluster.",
    arguments=syntax.READONLY,
)
def readonly(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    return _refused(client, args)


# READWRITE
@command(
    "READWRITE",
    arity=1,
    flags="fast loading stale",
    categories="connection",
    since="3.0.0",
    group="cluster",
    complexity="O(1)",
    summary="Ends what READONLY allowed.",
    arguments=syntax.READWRITE,
)
def readwrite(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    return _refused(client, args)


# ASKING
@command(
    "ASKING",
    arity=1,
    flags="fast",
    categories="connection",
    since="3.0.0",
    group="cluster",
    complexity="O(1)",
    summary="Lets the next command follow an ASK redirection.",
    arguments=syntax.ASKING,
)
def asking(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    return _refused(client, args)


container("CLUSTER", since="3.0.0", group="cluster", summary="A container for cluster commands.")

_ADMIN: Final = "admin stale no_async_loading"
_VARIES: Final = ("nondeterministic_output",)


def _declare(
    name: str,
    arity: int,
    flags: str,
    since: str,
    complexity: str,
    summary: str,
    arguments: Sequence[Argument],
    *,
    tips: Sequence[str] = (),
    history: Sequence[tuple[str, str]] = (),
    deprecated: tuple[str, str] | None = None,
) -> None:
    """Declare one subcommand; all of them have the same handler. ``deprecated``: since when, and by what."""
    command(
        f"CLUSTER|{name}",
        arity=arity,
        flags=flags,
        tips=tips,
        since=since,
        group="cluster",
        complexity=complexity,
        summary=summary,
        history=history,
        arguments=arguments,
        doc_flags="deprecated" if deprecated else "",
        deprecated_since=deprecated[0] if deprecated else None,
        replaced_by=deprecated[1] if deprecated else None,
    )(_refused)


# CLUSTER ADDSLOTS slot [slot ...]
_declare(
    "ADDSLOTS",
    -3,
    _ADMIN,
    "3.0.0",
    "O(N) where N is the total number of hash slot arguments",
    "Assigns hash slots to this node.",
    syntax.CLUSTER_ADDSLOTS,
)
# CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
_declare(
    "ADDSLOTSRANGE",
    -4,
    _ADMIN,
    "7.0.0",
    "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
    "Assigns ranges of hash slots to this node.",
    syntax.CLUSTER_ADDSLOTSRANGE,
)
# CLUSTER BUMPEPOCH
_declare(
    "BUMPEPOCH",
    2,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Advances the configuration epoch.",
    syntax.CLUSTER_BUMPEPOCH,
    tips=_VARIES,
)
# CLUSTER COUNT-FAILURE-REPORTS node-id
_declare(
    "COUNT-FAILURE-REPORTS",
    3,
    "admin stale",
    "3.0.0",
    "O(N) where N is the number of failure reports",
    "Returns how many reports say that a node failed.",
    syntax.CLUSTER_COUNT_FAILURE_REPORTS,
    tips=_VARIES,
)
# CLUSTER COUNTKEYSINSLOT slot
_declare(
    "COUNTKEYSINSLOT",
    3,
    "stale",
    "3.0.0",
    "O(1)",
    "Returns the number of keys in a hash slot.",
    syntax.CLUSTER_COUNTKEYSINSLOT,
)
# CLUSTER DELSLOTS slot [slot ...]
_declare(
    "DELSLOTS",
    -3,
    _ADMIN,
    "3.0.0",
    "O(N) where N is the total number of hash slot arguments",
    "Takes hash slots from this node.",
    syntax.CLUSTER_DELSLOTS,
)
# CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
_declare(
    "DELSLOTSRANGE",
    -4,
    _ADMIN,
    "7.0.0",
    "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
    "Takes ranges of hash slots from this node.",
    syntax.CLUSTER_DELSLOTSRANGE,
)
# CLUSTER FAILOVER [FORCE | TAKEOVER]
_declare(
    "FAILOVER",
    -2,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Makes a replica the master of its shard.",
    syntax.CLUSTER_FAILOVER,
)
# CLUSTER FLUSHSLOTS
_declare(
    "FLUSHSLOTS",
    2,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Takes all hash slots from this node.",
    syntax.CLUSTER_FLUSHSLOTS,
)
# CLUSTER FORGET node-id
_declare(
    "FORGET", 3, _ADMIN, "3.0.0", "O(1)", "Removes a node from the table of nodes.", syntax.CLUSTER_FORGET
)
# CLUSTER GETKEYSINSLOT slot count
_declare(
    "GETKEYSINSLOT",
    4,
    "stale",
    "3.0.0",
    "O(N) where N is the number of requested keys",
    "Returns keys of a hash slot.",
    syntax.CLUSTER_GETKEYSINSLOT,
    tips=_VARIES,
)
# CLUSTER HELP
_declare(
    "HELP",
    2,
    "loading stale",
    "5.0.0",
    "O(1)",
    "Shows helpful text about the subcommands.",
    syntax.CLUSTER_HELP,
)
# CLUSTER INFO
_declare(
    "INFO",
    2,
    "stale",
    "3.0.0",
    "O(1)",
    "Returns the state of the cluster.",
    syntax.CLUSTER_INFO,
    tips=_VARIES,
)
# CLUSTER KEYSLOT key
_declare(
    "KEYSLOT",
    3,
    "stale",
    "3.0.0",
    "O(N) where N is the number of bytes in the key",
    "Returns the hash slot of a key.",
    syntax.CLUSTER_KEYSLOT,
)
# CLUSTER LINKS
_declare(
    "LINKS",
    2,
    "stale",
    "7.0.0",
    "O(N) where N is the total number of Cluster nodes",
    "Returns the connections between this node and its peers.",
    syntax.CLUSTER_LINKS,
    tips=_VARIES,
)
# CLUSTER MEET ip port [cluster-bus-port]
_declare(
    "MEET",
    -4,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Joins another node's cluster.",
    syntax.CLUSTER_MEET,
    history=syntax.CLUSTER_MEET_HISTORY,
)
# CLUSTER MYID
_declare("MYID", 2, "stale", "3.0.0", "O(1)", "Returns this node's ID.", syntax.CLUSTER_MYID)
# CLUSTER MYSHARDID
_declare(
    "MYSHARDID",
    2,
    "stale",
    "7.2.0",
    "O(1)",
    "Returns the ID of this node's shard.",
    syntax.CLUSTER_MYSHARDID,
    tips=_VARIES,
)
# CLUSTER NODES
_declare(
    "NODES",
    2,
    "stale",
    "3.0.0",
    "O(N) where N is the total number of Cluster nodes",
    "Returns the configuration of the cluster as this node sees it.",
    syntax.CLUSTER_NODES,
    tips=_VARIES,
)
# CLUSTER REPLICAS node-id
_declare(
    "REPLICAS",
    3,
    "admin stale",
    "5.0.0",
    "O(N) where N is the number of replicas.",
    "Returns the replicas of a master node.",
    syntax.CLUSTER_REPLICAS,
    tips=_VARIES,
)
# CLUSTER REPLICATE node-id
_declare(
    "REPLICATE",
    3,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Makes this node a replica of a master node.",
    syntax.CLUSTER_REPLICATE,
)
# CLUSTER RESET [HARD | SOFT]
_declare(
    "RESET",
    -2,
    "admin noscript stale",
    "3.0.0",
    "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
    "Forgets the cluster.",
    syntax.CLUSTER_RESET,
)
# CLUSTER SAVECONFIG
_declare(
    "SAVECONFIG", 2, _ADMIN, "3.0.0", "O(1)", "Writes the cluster's state to disk.", syntax.CLUSTER_SAVECONFIG
)
# CLUSTER SET-CONFIG-EPOCH config-epoch
_declare(
    "SET-CONFIG-EPOCH",
    3,
    _ADMIN,
    "3.0.0",
    "O(1)",
    "Sets the configuration epoch of a new node.",
    syntax.CLUSTER_SET_CONFIG_EPOCH,
)
# CLUSTER SETSLOT slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>
_declare("SETSLOT", -4, _ADMIN, "3.0.0", "O(1)", "Binds a hash slot to a node.", syntax.CLUSTER_SETSLOT)
# CLUSTER SHARDS
_declare(
    "SHARDS",
    2,
    "stale",
    "7.0.0",
    "O(N) where N is the total number of cluster nodes",
    "Returns the hash slots by shard.",
    syntax.CLUSTER_SHARDS,
    tips=_VARIES,
)
# CLUSTER SLAVES node-id
_declare(
    "SLAVES",
    3,
    "admin stale",
    "3.0.0",
    "O(N) where N is the number of replicas.",
    "Returns the replicas of a master node.",
    syntax.CLUSTER_SLAVES,
    tips=_VARIES,
    deprecated=("5.0.0", "`CLUSTER REPLICAS`"),
)
# CLUSTER SLOTS
_declare(
    "SLOTS",
    2,
    "stale",
    "3.0.0",
    "O(N) where N is the total number of Cluster nodes",
    "Returns the hash slots and their nodes.",
    syntax.CLUSTER_SLOTS,
    tips=_VARIES,
    history=syntax.CLUSTER_SLOTS_HISTORY,
    deprecated=("7.0.0", "`CLUSTER SHARDS`"),
)
