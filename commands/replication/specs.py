"""The syntax of the commands about replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    NONE,
    block,
    integer,
    oneof,
    optional,
    string,
    switch,
    token,
)

if TYPE_CHECKING:
    from ..spec.grammar import Tree

WAIT: Tree = (integer("numreplicas"), integer("timeout"))


WAITAOF: Tree = (integer("numlocal"), integer("numreplicas"), integer("timeout"))


_PRIMARY = oneof(
    "args", block("host-port", string("host"), integer("port")), block("no-one", token("NO"), token("ONE"))
)


REPLICAOF: Tree = (_PRIMARY,)


SLAVEOF: Tree = (_PRIMARY,)


FAILOVER: Tree = (
    optional(block("target", string("host"), integer("port"), switch("FORCE"), after="TO")),
    switch("ABORT"),
    optional(integer("milliseconds", "TIMEOUT")),
)


REPLCONF: Tree = NONE


PSYNC: Tree = (string("replicationid"), integer("offset"))


SYNC: Tree = NONE
