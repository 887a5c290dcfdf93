"""The syntax of the set commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, MANY_KEYS, integer, key, many, optional, pattern, string, switch

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

SADD: Tree = (
    KEY,
    many(string("member")),
)
SADD_HISTORY: History = (("2.4.0", "Several members at once."),)
SREM: Tree = (
    KEY,
    many(string("member")),
)
SREM_HISTORY: History = (("2.4.0", "Several members at once."),)
SMEMBERS: Tree = (KEY,)
SISMEMBER: Tree = (
    KEY,
    string("member"),
)
SMISMEMBER: Tree = (
    KEY,
    many(string("member")),
)
SCARD: Tree = (KEY,)
SPOP: Tree = (
    KEY,
    optional(integer("count", since="3.2.0")),
)
SPOP_HISTORY: History = (("3.2.0", "Added count."),)
SRANDMEMBER: Tree = (
    KEY,
    optional(integer("count", since="2.6.0")),
)
SRANDMEMBER_HISTORY: History = (("2.6.0", "Added count."),)
SMOVE: Tree = (
    key("source"),
    key("destination", spec=1),
    string("member"),
)
SINTER: Tree = (MANY_KEYS,)
SINTERCARD: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    optional(integer("limit", "LIMIT")),
)
SINTERSTORE: Tree = (
    key("destination"),
    many(key("key", spec=1)),
)
SUNION: Tree = (MANY_KEYS,)
SUNIONSTORE: Tree = (
    key("destination"),
    many(key("key", spec=1)),
)
SDIFF: Tree = (MANY_KEYS,)
SDIFFSTORE: Tree = (
    key("destination"),
    many(key("key", spec=1)),
)
SSCAN: Tree = (
    KEY,
    integer("cursor"),
    optional(pattern("pattern", "MATCH")),
    optional(integer("count", "COUNT")),
)
SUNIONCARD: Tree = (integer("numkeys"), MANY_KEYS, switch("APPROX"), optional(integer("limit", "LIMIT")))
SDIFFCARD: Tree = (integer("numkeys"), MANY_KEYS, optional(integer("limit", "LIMIT")))
