"""SENTINEL's subcommands: one record each. They exist in sentinel mode only."""

from __future__ import annotations

from ....commands.spec.command import SENTINEL as REGISTRY
from ....commands.spec.command import Family
from ....commands.spec.grammar import block, integer, many, oneof, pattern, string

family = Family(__package__, "sentinel", registry=REGISTRY)

_NAME = string("master-name")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

SENTINEL = family.container("SENTINEL", flags="admin", since="2.8.4",
    summary="Groups the commands of a sentinel.")

CKQUORUM = family.command("SENTINEL|CKQUORUM", arity=3, flags="admin", since="2.8.4", complexity="",
    summary="Checks whether enough sentinels are there for a failover.",
    arguments=(_NAME,))

CONFIG = family.command("SENTINEL|CONFIG", arity=-4, flags="admin", since="6.2.0",
    summary="Shows or changes settings of the sentinel.",
    complexity="O(N); N: parameters given",
    history={"7.2.0": "Takes several parameters."},
    arguments=(oneof("action",
        many(block("set", string("parameter"), string("value"), after="SET")),
        many(string("parameter", "GET"))),))

FAILOVER = family.command("SENTINEL|FAILOVER", arity=3, flags="admin", since="2.8.4", complexity="",
    summary="Starts a failover although the master may be well.",
    arguments=(_NAME,))

GET_MASTER_ADDR_BY_NAME = family.command("SENTINEL|GET-MASTER-ADDR-BY-NAME", arity=3, flags="admin", since="2.8.4",
    summary="Returns the address and the port of a master.",
    arguments=(_NAME,))

HELP = family.help("SENTINEL", since="6.2.0")

INFO_CACHE = family.command("SENTINEL|INFO-CACHE", arity=-3, flags="admin", since="3.2.0",
    summary="Returns the last INFO of masters and their replicas.",
    complexity="O(N); N: instances",
    arguments=(many(string("nodename")),))

IS_MASTER_DOWN_BY_ADDR = family.command("SENTINEL|IS-MASTER-DOWN-BY-ADDR", arity=6, flags="admin", since="2.8.4",
    summary="Returns whether a master is down, and votes for the leader of its failover.",
    arguments=(string("ip"), integer("port"), integer("current-epoch"), string("runid")))

MASTER = family.command("SENTINEL|MASTER", arity=3, flags="admin", since="2.8.4",
    summary="Returns the state of a master.",
    arguments=(_NAME,))

MASTERS = family.command("SENTINEL|MASTERS", arity=2, flags="admin", since="2.8.4",
    summary="Returns the state of every master.",
    complexity="O(N); N: masters")

MONITOR = family.command("SENTINEL|MONITOR", arity=6, flags="admin", since="2.8.4",
    summary="Monitors another master.",
    arguments=(string("name"), string("ip"), integer("port"), integer("quorum")))

MYID = family.command("SENTINEL|MYID", arity=2, flags="admin", since="6.2.0",
    summary="Returns the ID of the sentinel.")

PENDING_SCRIPTS = family.command("SENTINEL|PENDING-SCRIPTS", arity=2, flags="admin", since="2.8.4", complexity="",
    summary="Returns the scripts that wait or run: none, for there are no scripts.")

REMOVE = family.command("SENTINEL|REMOVE", arity=3, flags="admin", since="2.8.4",
    summary="Ends the monitoring of a master.",
    arguments=(_NAME,))

REPLICAS = family.command("SENTINEL|REPLICAS", arity=3, flags="admin", since="5.0.0",
    summary="Returns the state of the replicas of a master.",
    complexity="O(N); N: replicas",
    arguments=(_NAME,))

RESET = family.command("SENTINEL|RESET", arity=3, flags="admin", since="2.8.4",
    summary="Forgets the state of masters, and finds their replicas again.",
    complexity="O(N); N: masters",
    arguments=(pattern(),))

SENTINELS = family.command("SENTINEL|SENTINELS", arity=3, flags="admin", since="2.8.4",
    summary="Returns the other sentinels of a master: none, for this one works alone.",
    complexity="O(N); N: sentinels",
    arguments=(_NAME,))

SET = family.command("SENTINEL|SET", arity=-5, flags="admin", since="2.8.4",
    summary="Changes how a master is monitored.",
    arguments=(_NAME, many(block("data", string("option"), string("value")))))

SLAVES = family.command("SENTINEL|SLAVES", arity=3, flags="admin", since="2.8.0",
    doc_flags="deprecated", deprecated_since="5.0.0", replaced_by="`SENTINEL REPLICAS`",
    summary="Returns the state of the replicas of a master.",
    complexity="O(N); N: replicas",
    arguments=(_NAME,))

# fmt: on
