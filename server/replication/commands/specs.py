"""The commands of replication (REPLICAOF, PSYNC, WAIT …): one record each."""

from __future__ import annotations

from ....commands.spec.command import Family
from ....commands.spec.grammar import block, integer, oneof, optional, string, switch, token

family = Family(__package__, "server")

_PRIMARY = oneof(
    "args", block("host-port", string("host"), integer("port")), block("no-one", token("NO"), token("ONE"))
)

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

WAIT = family.command("WAIT", arity=3, flags="blocking", categories="connection", group="generic",
    tips="request_policy:all_shards response_policy:agg_min", since="3.0.0",
    summary="Waits until so many replicas have the connection's writes.",
    arguments=(integer("numreplicas"), integer("timeout")))

WAITAOF = family.command("WAITAOF", arity=4, flags="blocking", categories="connection", group="generic",
    tips="request_policy:all_shards response_policy:agg_min", since="7.2.0",
    summary="Waits until the connection's writes are on the disk, here and on so many replicas.",
    arguments=(integer("numlocal"), integer("numreplicas"), integer("timeout")))

REPLICAOF = family.command("REPLICAOF", arity=3, flags="admin noscript stale no_async_loading",
    since="5.0.0",
    summary="Makes the server a replica of another, or a master again.",
    arguments=(_PRIMARY,))

SLAVEOF = family.command("SLAVEOF", arity=3, flags="admin noscript stale no_async_loading", since="1.0.0",
    doc_flags="deprecated", deprecated_since="5.0.0", replaced_by="`REPLICAOF`",
    summary="The older name of REPLICAOF.",
    arguments=(_PRIMARY,))

REPLCONF = family.command("REPLCONF", arity=-1, flags="admin noscript loading stale allow_busy",
    since="3.0.0", doc_flags="syscmd",
    summary="Reports a replica's properties and its offset to the master.")

PSYNC = family.command("PSYNC", arity=-3, flags="admin noscript no_async_loading no_multi", since="2.8.0",
    summary="Begins or continues replication; the stream follows on the same connection.",
    complexity="",
    arguments=(string("replicationid"), integer("offset")))

SYNC = family.command("SYNC", arity=1, flags="admin noscript no_async_loading no_multi", since="1.0.0",
    summary="Begins replication in its oldest form.",
    complexity="")

FAILOVER = family.command("FAILOVER", arity=-1, flags="admin noscript stale", since="6.2.0",
    summary="Hands the role of the master to a replica.",
    arguments=(optional(block("target", string("host"), integer("port"), switch("FORCE"), after="TO")),
        switch("ABORT"), optional(integer("milliseconds", "TIMEOUT"))))

ROLE = family.command("ROLE", arity=1, flags="noscript loading stale fast", categories="admin dangerous",
    since="2.8.12",
    summary="Returns the server's place in replication.")

# fmt: on
