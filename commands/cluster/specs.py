"""The syntax of the cluster commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import NONE, block, integer, many, oneof, optional, string, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_RANGES = many(block("range", integer("start-slot"), integer("end-slot")))

READONLY: Tree = NONE
READWRITE: Tree = NONE
ASKING: Tree = NONE

CLUSTER: Tree = NONE
CLUSTER_ADDSLOTS: Tree = (many(integer("slot")),)
CLUSTER_ADDSLOTSRANGE: Tree = (_RANGES,)
CLUSTER_BUMPEPOCH: Tree = NONE
CLUSTER_COUNT_FAILURE_REPORTS: Tree = (string("node-id"),)
CLUSTER_COUNTKEYSINSLOT: Tree = (integer("slot"),)
CLUSTER_DELSLOTS: Tree = (many(integer("slot")),)
CLUSTER_DELSLOTSRANGE: Tree = (_RANGES,)
CLUSTER_FAILOVER: Tree = (optional(oneof("options", token("FORCE"), token("TAKEOVER"))),)
CLUSTER_FLUSHSLOTS: Tree = NONE
CLUSTER_FORGET: Tree = (string("node-id"),)
CLUSTER_GETKEYSINSLOT: Tree = (integer("slot"), integer("count"))
CLUSTER_INFO: Tree = NONE
CLUSTER_KEYSLOT: Tree = (string("key"),)
CLUSTER_LINKS: Tree = NONE
CLUSTER_MEET: Tree = (string("ip"), integer("port"), optional(integer("cluster-bus-port", since="4.0.0")))
CLUSTER_MEET_HISTORY: History = (("4.0.0", "Added the port of the cluster bus."),)
CLUSTER_MYID: Tree = NONE
CLUSTER_MYSHARDID: Tree = NONE
CLUSTER_NODES: Tree = NONE
CLUSTER_REPLICAS: Tree = (string("node-id"),)
CLUSTER_REPLICATE: Tree = (string("node-id"),)
CLUSTER_RESET: Tree = (optional(oneof("reset-type", token("HARD"), token("SOFT"))),)
CLUSTER_SAVECONFIG: Tree = NONE
CLUSTER_SET_CONFIG_EPOCH: Tree = (integer("config-epoch"),)
CLUSTER_SETSLOT: Tree = (
    integer("slot"),
    oneof(
        "subcommand",
        string("importing", "IMPORTING", display="node-id"),
        string("migrating", "MIGRATING", display="node-id"),
        string("node", "NODE", display="node-id"),
        token("STABLE"),
    ),
)
CLUSTER_SHARDS: Tree = NONE
CLUSTER_SLAVES: Tree = (string("node-id"),)
CLUSTER_SLOTS: Tree = NONE
CLUSTER_SLOTS_HISTORY: History = (
    ("4.0.0", "Added node IDs."),
    ("7.0.0", "Added more about the nodes' network addresses."),
)
CLUSTER_HELP: Tree = NONE
