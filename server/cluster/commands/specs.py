"""CLUSTER's subcommands, READONLY, READWRITE and ASKING: one record each."""

from __future__ import annotations

from ....commands.spec.command import Family
from ....commands.spec.grammar import block, integer, many, oneof, optional, string, switch, token

family = Family(
    __package__,
    "cluster",
    modules={
        "handlers": "asking cluster readonly readwrite",
        "migration": "cluster|migration cluster|syncslots",
        "node_commands": "cluster|bumpepoch cluster|failover cluster|forget cluster|meet cluster|replicate "
        "cluster|reset cluster|saveconfig cluster|set-config-epoch",
        "slot_commands": "cluster|addslots cluster|addslotsrange cluster|delslots cluster|delslotsrange "
        "cluster|flushslots cluster|setslot cluster|slot-stats",
    },
)

_RANGES = many(block("range", integer("start-slot"), integer("end-slot")))
_NODES_COST = "O(N); N: nodes of the cluster"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

READONLY = family.command("READONLY", arity=1, flags="loading stale fast", categories="connection",
    since="3.0.0",
    summary="Allows reading from a replica node of a cluster.")

READWRITE = family.command("READWRITE", arity=1, flags="loading stale fast", categories="connection",
    since="3.0.0",
    summary="Ends READONLY: reads from a replica are redirected again.")

ASKING = family.command("ASKING", arity=1, flags="fast", categories="connection", since="3.0.0",
    summary="Lets the next command follow an ASK redirection.")

CLUSTER = family.container("CLUSTER", since="3.0.0",
    summary="Groups the commands on a cluster and its slots.")

CLUSTER_ADDSLOTS = family.command("CLUSTER|ADDSLOTS", arity=-3, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Assigns hash slots to this node.",
    complexity="O(N); N: slots given",
    arguments=(many(integer("slot")),))

CLUSTER_ADDSLOTSRANGE = family.command("CLUSTER|ADDSLOTSRANGE", arity=-4,
    flags="admin stale no_async_loading", since="7.0.0",
    summary="Assigns ranges of hash slots to this node.",
    complexity="O(N); N: slots of all ranges",
    arguments=(_RANGES,))

CLUSTER_BUMPEPOCH = family.command("CLUSTER|BUMPEPOCH", arity=2, flags="admin stale no_async_loading",
    tips="nondeterministic_output", since="3.0.0",
    summary="Advances the configuration epoch.")

CLUSTER_COUNT_FAILURE_REPORTS = family.command("CLUSTER|COUNT-FAILURE-REPORTS", arity=3, flags="admin loading stale",
    tips="nondeterministic_output", since="3.0.0",
    summary="Returns how many reports say that a node failed.",
    complexity="O(N); N: reports",
    arguments=(string("node-id"),))

CLUSTER_COUNTKEYSINSLOT = family.command("CLUSTER|COUNTKEYSINSLOT", arity=3, flags="stale", since="3.0.0",
    summary="Counts the keys of a hash slot.",
    arguments=(integer("slot"),))

CLUSTER_DELSLOTS = family.command("CLUSTER|DELSLOTS", arity=-3, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Takes hash slots from this node.",
    complexity="O(N); N: slots given",
    arguments=(many(integer("slot")),))

CLUSTER_DELSLOTSRANGE = family.command("CLUSTER|DELSLOTSRANGE", arity=-4,
    flags="admin stale no_async_loading", since="7.0.0",
    summary="Takes ranges of hash slots from this node.",
    complexity="O(N); N: slots of all ranges",
    arguments=(_RANGES,))

CLUSTER_FAILOVER = family.command("CLUSTER|FAILOVER", arity=-2, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Makes a replica the master of its shard.",
    arguments=(optional(oneof("options", token("FORCE"), token("TAKEOVER"))),))

CLUSTER_FLUSHSLOTS = family.command("CLUSTER|FLUSHSLOTS", arity=2, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Takes all hash slots from this node.")

CLUSTER_FORGET = family.command("CLUSTER|FORGET", arity=3, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Removes a node from the table of nodes.",
    arguments=(string("node-id"),))

CLUSTER_GETKEYSINSLOT = family.command("CLUSTER|GETKEYSINSLOT", arity=4, flags="stale",
    tips="nondeterministic_output", since="3.0.0",
    summary="Returns keys of a hash slot.",
    complexity="O(N); N: keys asked for",
    arguments=(integer("slot"), integer("count")))

CLUSTER_HELP = family.help("CLUSTER", since="5.0.0")

CLUSTER_INFO = family.command("CLUSTER|INFO", arity=2, flags="loading stale", tips="nondeterministic_output",
    since="3.0.0",
    summary="Returns the state of the cluster.")

CLUSTER_KEYSLOT = family.command("CLUSTER|KEYSLOT", arity=3, flags="loading stale", since="3.0.0",
    summary="Returns the hash slot of a key.",
    complexity="O(N); N: bytes of the key",
    arguments=(string("key"),))

CLUSTER_LINKS = family.command("CLUSTER|LINKS", arity=2, flags="loading stale", tips="nondeterministic_output",
    since="7.0.0",
    summary="Returns the connections between this node and its peers.",
    complexity=_NODES_COST)

CLUSTER_MEET = family.command("CLUSTER|MEET", arity=-4, flags="admin stale no_async_loading", since="3.0.0",
    summary="Joins another node's cluster.",
    arguments=(string("ip"), integer("port"), optional(integer("cluster-bus-port", since="4.0.0"))),
    history={"4.0.0": "Added the port of the cluster bus."})

CLUSTER_MIGRATION = family.command("CLUSTER|MIGRATION", arity=-4, flags="admin stale no_async_loading",
    since="8.4.0",
    summary="Starts, shows and cancels the migration of slots.",
    complexity="O(N); N: slots of all ranges",
    arguments=(oneof("subcommand",
        many(block("import", integer("start-slot"), integer("end-slot"), after="IMPORT")),
        oneof("cancel", string("task-id", "ID"), token("ALL"), after="CANCEL"),
        oneof("status", optional(string("task-id", "ID")), switch("ALL"), after="STATUS")),))

CLUSTER_MYID = family.command("CLUSTER|MYID", arity=2, flags="loading stale", since="3.0.0",
    summary="Returns this node's ID.")

CLUSTER_MYSHARDID = family.command("CLUSTER|MYSHARDID", arity=2, flags="loading stale",
    tips="nondeterministic_output", since="7.2.0",
    summary="Returns the ID of this node's shard.")

CLUSTER_NODES = family.command("CLUSTER|NODES", arity=2, flags="loading stale", tips="nondeterministic_output",
    since="3.0.0",
    summary="Returns the configuration of the cluster as this node sees it.",
    complexity=_NODES_COST)

CLUSTER_REPLICAS = family.command("CLUSTER|REPLICAS", arity=3, flags="admin loading stale",
    tips="nondeterministic_output", since="5.0.0",
    summary="Returns the replicas of a master node.",
    complexity="O(N); N: replicas",
    arguments=(string("node-id"),))

CLUSTER_REPLICATE = family.command("CLUSTER|REPLICATE", arity=3, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Makes this node a replica of a master node.",
    arguments=(string("node-id"),))

CLUSTER_RESET = family.command("CLUSTER|RESET", arity=-2, flags="admin noscript stale", since="3.0.0",
    summary="Forgets the cluster.",
    complexity="O(N); N: known nodes; a replica also empties its databases",
    arguments=(optional(oneof("reset-type", token("HARD"), token("SOFT"))),))

CLUSTER_SAVECONFIG = family.command("CLUSTER|SAVECONFIG", arity=2, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Writes the cluster's state to disk.")

CLUSTER_SET_CONFIG_EPOCH = family.command("CLUSTER|SET-CONFIG-EPOCH", arity=3,
    flags="admin stale no_async_loading", since="3.0.0",
    summary="Sets the configuration epoch of a new node.",
    arguments=(integer("config-epoch"),))

CLUSTER_SETSLOT = family.command("CLUSTER|SETSLOT", arity=-4, flags="admin stale no_async_loading",
    since="3.0.0",
    summary="Gives a hash slot to a node, or begins or ends its move.",
    arguments=(integer("slot"),
        oneof("subcommand", string("importing", "IMPORTING", display="node-id"),
            string("migrating", "MIGRATING", display="node-id"), string("node", "NODE", display="node-id"),
            token("STABLE"))))

CLUSTER_SHARDS = family.command("CLUSTER|SHARDS", arity=2, flags="loading stale", tips="nondeterministic_output",
    since="7.0.0",
    summary="Returns the hash slots by shard.",
    complexity="O(N); N: nodes of the cluster")

CLUSTER_SLAVES = family.command("CLUSTER|SLAVES", arity=3, flags="admin loading stale",
    tips="nondeterministic_output", since="3.0.0", doc_flags="deprecated", deprecated_since="5.0.0",
    replaced_by="`CLUSTER REPLICAS`",
    summary="Returns the replicas of a master node.",
    complexity="O(N); N: replicas",
    arguments=(string("node-id"),))

CLUSTER_SLOT_STATS = family.command("CLUSTER|SLOT-STATS", arity=-4, flags="loading stale",
    tips="nondeterministic_output request_policy:all_shards", since="8.2.0",
    summary="Returns how much the slots of this node are used.",
    complexity="O(N), or O(N*log(N)) with ORDERBY; N: slots asked for",
    arguments=(oneof("filter",
        block("slotsrange", integer("start-slot"), integer("end-slot"), after="SLOTSRANGE"),
        block("orderby", string("metric"), optional(integer("limit", "LIMIT")),
            optional(oneof("order", token("ASC"), token("DESC"))), after="ORDERBY")),))

CLUSTER_SLOTS = family.command("CLUSTER|SLOTS", arity=2, flags="loading stale", tips="nondeterministic_output",
    since="3.0.0", doc_flags="deprecated", deprecated_since="7.0.0", replaced_by="`CLUSTER SHARDS`",
    summary="Returns the hash slots and their nodes.",
    complexity=_NODES_COST,
    history={"4.0.0": "Shows the IDs of nodes.", "7.0.0": "Added more about the nodes' network addresses."})

CLUSTER_SYNCSLOTS = family.command("CLUSTER|SYNCSLOTS", arity=-3, flags="admin stale no_async_loading",
    tips="nondeterministic_output", since="8.4.0",
    summary="Nodes of a cluster send it to each other while slots migrate.",
    arguments=(oneof("subcommand",
        block("sync", string("task-id"),
            many(block("slot-range", integer("start-slot"), integer("end-slot"))), after="SYNC"),
        string("task-id", "RDBCHANNEL"), token("SNAPSHOT-EOF"), token("STREAM-EOF"),
        block("ack", string("state"), integer("offset"), after="ACK"), string("error", "FAIL"),
        block("conf", many(string("option")), many(string("value")), after="CONF")),))

# fmt: on
