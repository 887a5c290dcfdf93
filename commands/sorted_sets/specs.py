"""The syntax of the sorted set commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    block,
    double,
    integer,
    key,
    many,
    oneof,
    optional,
    pattern,
    string,
    switch,
    token,
)

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_WEIGHTS = optional(many(integer("weight", "WEIGHTS")))
_AGGREGATE = optional(
    oneof(
        "aggregate",
        token("SUM"),
        token("MIN"),
        token("MAX"),
        token("COUNT", since="8.8.0"),
        after="AGGREGATE",
    )
)

ZADD: Tree = (
    KEY,
    optional(oneof("condition", token("NX"), token("XX"), since="3.0.2")),
    optional(oneof("comparison", token("GT"), token("LT"), since="6.2.0")),
    switch("CH", name="change", since="3.0.2"),
    switch("INCR", name="increment", since="3.0.2"),
    many(block("data", double("score"), string("member"))),
)
ZADD_HISTORY: History = (
    ("2.4.0", "Several members at once."),
    ("3.0.2", "Added XX, NX, CH and INCR."),
    ("6.2.0", "Added GT and LT."),
)
ZINCRBY: Tree = (
    KEY,
    integer("increment"),
    string("member"),
)
ZSCORE: Tree = (
    KEY,
    string("member"),
)
ZMSCORE: Tree = (
    KEY,
    many(string("member")),
)
ZRANK: Tree = (
    KEY,
    string("member"),
    switch("WITHSCORE"),
)
ZRANK_HISTORY: History = (("7.2.0", "Added WITHSCORE."),)
ZREVRANK: Tree = (
    KEY,
    string("member"),
    switch("WITHSCORE"),
)
ZREVRANK_HISTORY: History = (("7.2.0", "Added WITHSCORE."),)
ZCARD: Tree = (KEY,)
ZCOUNT: Tree = (
    KEY,
    double("min"),
    double("max"),
)
ZLEXCOUNT: Tree = (
    KEY,
    string("min"),
    string("max"),
)
ZRANGE: Tree = (
    KEY,
    string("start"),
    string("stop"),
    optional(oneof("sortby", token("BYSCORE"), token("BYLEX"), since="6.2.0")),
    switch("REV", since="6.2.0"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT", since="6.2.0")),
    switch("WITHSCORES"),
)
ZRANGE_HISTORY: History = (("6.2.0", "Added REV, BYSCORE, BYLEX and LIMIT."),)
ZRANGESTORE: Tree = (
    key("dst"),
    key("src", spec=1),
    string("min"),
    string("max"),
    optional(oneof("sortby", token("BYSCORE"), token("BYLEX"))),
    switch("REV"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
)
ZREVRANGE: Tree = (
    KEY,
    integer("start"),
    integer("stop"),
    switch("WITHSCORES"),
)
ZRANGEBYSCORE: Tree = (
    KEY,
    double("min"),
    double("max"),
    switch("WITHSCORES", since="2.0.0"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
)
ZRANGEBYSCORE_HISTORY: History = (("2.0.0", "Added WITHSCORES."),)
ZREVRANGEBYSCORE: Tree = (
    KEY,
    double("max"),
    double("min"),
    switch("WITHSCORES"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
)
ZREVRANGEBYSCORE_HISTORY: History = (("2.1.6", "The bounds may be exclusive."),)
ZRANGEBYLEX: Tree = (
    KEY,
    string("min"),
    string("max"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
)
ZREVRANGEBYLEX: Tree = (
    KEY,
    string("max"),
    string("min"),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
)
ZREM: Tree = (
    KEY,
    many(string("member")),
)
ZREM_HISTORY: History = (("2.4.0", "Several members at once."),)
ZREMRANGEBYRANK: Tree = (
    KEY,
    integer("start"),
    integer("stop"),
)
ZREMRANGEBYSCORE: Tree = (
    KEY,
    double("min"),
    double("max"),
)
ZREMRANGEBYLEX: Tree = (
    KEY,
    string("min"),
    string("max"),
)
ZPOPMIN: Tree = (
    KEY,
    optional(integer("count")),
)
ZPOPMAX: Tree = (
    KEY,
    optional(integer("count")),
)
ZMPOP: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    oneof("where", token("MIN"), token("MAX")),
    optional(integer("count", "COUNT")),
)
BZPOPMIN: Tree = (
    MANY_KEYS,
    double("timeout"),
)
BZPOPMIN_HISTORY: History = (("6.0.0", "The timeout may be a fraction."),)
BZPOPMAX: Tree = (
    MANY_KEYS,
    double("timeout"),
)
BZPOPMAX_HISTORY: History = (("6.0.0", "The timeout may be a fraction."),)
BZMPOP: Tree = (
    double("timeout"),
    integer("numkeys"),
    MANY_KEYS,
    oneof("where", token("MIN"), token("MAX")),
    optional(integer("count", "COUNT")),
)
ZUNION: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    _WEIGHTS,
    _AGGREGATE,
    switch("WITHSCORES"),
)
ZINTER: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    _WEIGHTS,
    _AGGREGATE,
    switch("WITHSCORES"),
)
ZDIFF: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    switch("WITHSCORES"),
)
ZUNIONSTORE: Tree = (
    key("destination"),
    integer("numkeys"),
    many(key("key", spec=1)),
    _WEIGHTS,
    _AGGREGATE,
)
ZINTERSTORE: Tree = (
    key("destination"),
    integer("numkeys"),
    many(key("key", spec=1)),
    _WEIGHTS,
    _AGGREGATE,
)
ZDIFFSTORE: Tree = (
    key("destination"),
    integer("numkeys"),
    many(key("key", spec=1)),
)
ZINTERCARD: Tree = (
    integer("numkeys"),
    MANY_KEYS,
    optional(integer("limit", "LIMIT")),
)
ZRANDMEMBER: Tree = (
    KEY,
    optional(block("options", integer("count"), switch("WITHSCORES"))),
)
ZSCAN: Tree = (
    KEY,
    integer("cursor"),
    optional(pattern("pattern", "MATCH")),
    optional(integer("count", "COUNT")),
)
ZUNION_HISTORY: History = (("8.8.0", "Added COUNT to AGGREGATE."),)
ZINTER_HISTORY: History = (("8.8.0", "Added COUNT to AGGREGATE."),)
ZUNIONSTORE_HISTORY: History = (("8.8.0", "Added COUNT to AGGREGATE."),)
ZINTERSTORE_HISTORY: History = (("8.8.0", "Added COUNT to AGGREGATE."),)
