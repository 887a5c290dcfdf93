"""The sorted set commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
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
from ..spec.key_specs import CHANGES, DELETES, INSPECTS, READS, TAKES, UPDATES, KeySpec, at

family = Family(
    __package__,
    "sorted-set",
    categories="sortedset",
    modules={
        "algebra": "zdiff zdiffstore zinter zintercard zinterstore zunion zunionstore",
        "members": "zadd zcard zincrby zmscore zrandmember zrank zrem zrevrank zscan zscore",
        "pops": "bzmpop bzpopmax bzpopmin zmpop zpopmax zpopmin",
        "ranges": "zcount zlexcount zrange zrangebylex zrangebyscore zrangestore zremrangebylex "
        "zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore",
    },
)

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
_SEARCH_COST = "O(log(N)); N: members of the sorted set"
_RANGE_COST = "O(log(N)+M); N: members of the sorted set, M: members returned or skipped by LIMIT"
_REMOVAL_COST = "O(log(N)+M); N: members of the sorted set, M: members removed"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

ZUNION = family.read("ZUNION", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="6.2.0",
    summary="Returns the members that any of the sorted sets has.",
    complexity="O(N+M*log(M)); N: members of all sorted sets, M: members of the result",
    arguments=(integer("numkeys"), MANY_KEYS, _WEIGHTS, _AGGREGATE, switch("WITHSCORES")),
    history={"8.8.0": "Added COUNT to AGGREGATE."})

ZINTER = family.read("ZINTER", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="6.2.0",
    summary="Returns the members that all sorted sets have.",
    complexity="O(N*K+M*log(M)); N: members of the smallest sorted set, K: sorted sets, M: members of the result",
    arguments=(integer("numkeys"), MANY_KEYS, _WEIGHTS, _AGGREGATE, switch("WITHSCORES")),
    history={"8.8.0": "Added COUNT to AGGREGATE."})

ZDIFF = family.read("ZDIFF", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="6.2.0",
    summary="Returns the members of the first sorted set that no other has.",
    complexity="O(L+M*log(M)); L: members of all sorted sets, M: members of the result",
    arguments=(integer("numkeys"), MANY_KEYS, switch("WITHSCORES")))

ZUNIONSTORE = family.write("ZUNIONSTORE", arity=-4, flags="denyoom movablekeys",
    keys=(at(1, "OW update"), KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1))), since="2.0.0",
    summary="Stores the members that any of the sorted sets has as another one.",
    complexity="O(N+M*log(M)); N: members of all sorted sets, M: members of the result",
    arguments=(key("destination"), integer("numkeys"), many(key("key", spec=1)), _WEIGHTS, _AGGREGATE),
    history={"8.8.0": "Added COUNT to AGGREGATE."})

ZINTERSTORE = family.write("ZINTERSTORE", arity=-4, flags="denyoom movablekeys",
    keys=(at(1, "OW update"), KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1))), since="2.0.0",
    summary="Stores the members that all sorted sets have as another one.",
    complexity="O(N*K+M*log(M)); N: members of the smallest sorted set, K: sorted sets, M: members of the result",
    arguments=(key("destination"), integer("numkeys"), many(key("key", spec=1)), _WEIGHTS, _AGGREGATE),
    history={"8.8.0": "Added COUNT to AGGREGATE."})

ZDIFFSTORE = family.write("ZDIFFSTORE", arity=-4, flags="denyoom movablekeys",
    keys=(at(1, "OW update"), KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1))), since="6.2.0",
    summary="Stores the members of the first sorted set that no other has as another one.",
    complexity="O(L+M*log(M)); L: members of all sorted sets, M: members of the result",
    arguments=(key("destination"), integer("numkeys"), many(key("key", spec=1))))

ZINTERCARD = family.read("ZINTERCARD", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Counts the members that all sorted sets have.",
    complexity="O(N*K); N: members of the smallest sorted set, K: sorted sets",
    arguments=(integer("numkeys"), MANY_KEYS, optional(integer("limit", "LIMIT"))))

ZADD = family.write("ZADD", arity=-4, flags="denyoom fast", keys=UPDATES, since="1.2.0",
    summary="Adds members with their scores to a sorted set, or gives members other scores.",
    complexity="O(M*log(N)); M: members given, N: members of the sorted set",
    arguments=(KEY, optional(oneof("condition", token("NX"), token("XX"), since="3.0.2")),
        optional(oneof("comparison", token("GT"), token("LT"), since="6.2.0")),
        switch("CH", name="change", since="3.0.2"), switch("INCR", name="increment", since="3.0.2"),
        many(block("data", double("score"), string("member")))),
    history={
        "2.4.0": "Several members at once.",
        "3.0.2": "Added XX, NX, CH and INCR.",
        "6.2.0": "Added GT and LT.",
    })

ZINCRBY = family.write("ZINCRBY", arity=4, flags="denyoom fast", keys=CHANGES, since="1.2.0",
    summary="Adds to the score of a member of a sorted set; creates the member and the set if they are "
        "missing.",
    complexity="O(log(N)); N: members of the sorted set",
    arguments=(KEY, integer("increment"), string("member")))

ZREM = family.write("ZREM", arity=-3, flags="fast", keys=DELETES, since="1.2.0",
    summary="Removes members from a sorted set.",
    complexity="O(M*log(N)); M: members given, N: members of the sorted set",
    arguments=(KEY, many(string("member"))),
    history={"2.4.0": "Several members at once."})

ZCARD = family.read("ZCARD", arity=2, flags="fast", keys=INSPECTS, since="1.2.0",
    summary="Returns the number of members of a sorted set.",
    arguments=(KEY,))

ZSCORE = family.read("ZSCORE", arity=3, flags="fast", keys=READS, since="1.2.0",
    summary="Returns the score of a member of a sorted set.",
    arguments=(KEY, string("member")))

ZMSCORE = family.read("ZMSCORE", arity=-3, flags="fast", keys=READS, since="6.2.0",
    summary="Returns the scores of several members of a sorted set.",
    complexity="O(N); N: members given",
    arguments=(KEY, many(string("member"))))

ZRANK = family.read("ZRANK", arity=-3, flags="fast", keys=READS, since="2.0.0",
    summary="Returns the place of a member of a sorted set, counted from the lowest score.",
    complexity="O(log(N)); N: members of the sorted set",
    arguments=(KEY, string("member"), switch("WITHSCORE")),
    history={"7.2.0": "Added WITHSCORE."})

ZREVRANK = family.read("ZREVRANK", arity=-3, flags="fast", keys=READS, since="2.0.0",
    summary="Returns the place of a member of a sorted set, counted from the highest score.",
    complexity="O(log(N)); N: members of the sorted set",
    arguments=(KEY, string("member"), switch("WITHSCORE")),
    history={"7.2.0": "Added WITHSCORE."})

ZRANDMEMBER = family.read("ZRANDMEMBER", arity=-2, keys=READS, tips="nondeterministic_output", since="6.2.0",
    summary="Returns random members of a sorted set.",
    complexity="O(N); N: members returned",
    arguments=(KEY, optional(block("options", integer("count"), switch("WITHSCORES")))))

ZSCAN = family.read("ZSCAN", arity=-3, keys=READS, tips="nondeterministic_output", since="2.8.0",
    summary="Walks over the members of a sorted set and their scores, some at a time.",
    complexity="O(C), and O(N) until the cursor is 0 again; C: COUNT, N: all elements",
    arguments=(KEY, integer("cursor"), optional(pattern("pattern", "MATCH")),
        optional(integer("count", "COUNT"))))

ZPOPMIN = family.write("ZPOPMIN", arity=-2, flags="fast", keys=TAKES, since="5.0.0",
    summary="Removes the members of a sorted set with the lowest scores and returns them.",
    complexity="O(M*log(N)); M: members popped, N: members of the sorted set",
    arguments=(KEY, optional(integer("count"))))

ZPOPMAX = family.write("ZPOPMAX", arity=-2, flags="fast", keys=TAKES, since="5.0.0",
    summary="Removes the members of a sorted set with the highest scores and returns them.",
    complexity="O(M*log(N)); M: members popped, N: members of the sorted set",
    arguments=(KEY, optional(integer("count"))))

ZMPOP = family.write("ZMPOP", arity=-4, flags="movablekeys",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 1), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Removes the members with the lowest or highest scores from the first sorted set that exists.",
    complexity="O(K+M*log(N)); K: keys given, N: members of the sorted set, M: members popped",
    arguments=(integer("numkeys"), MANY_KEYS, oneof("where", token("MIN"), token("MAX")),
        optional(integer("count", "COUNT"))))

BZPOPMIN = family.write("BZPOPMIN", arity=-3, flags="blocking fast",
    keys=(at(1, "RW access delete", last=-2),), since="5.0.0",
    summary="Removes the member with the lowest score from the first sorted set that exists; waits for one "
        "if none does.",
    complexity=_SEARCH_COST,
    arguments=(MANY_KEYS, double("timeout")),
    history={"6.0.0": "The timeout may be a fraction."})

BZPOPMAX = family.write("BZPOPMAX", arity=-3, flags="blocking fast",
    keys=(at(1, "RW access delete", last=-2),), since="5.0.0",
    summary="Removes the member with the highest score from the first sorted set that exists; waits for one "
        "if none does.",
    complexity=_SEARCH_COST,
    arguments=(MANY_KEYS, double("timeout")),
    history={"6.0.0": "The timeout may be a fraction."})

BZMPOP = family.write("BZMPOP", arity=-5, flags="blocking movablekeys",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 2), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Removes the members with the lowest or highest scores from the first sorted set that exists; "
        "waits for one if none does.",
    complexity="O(K+M*log(N)); K: keys given, N: members of the sorted set, M: members popped",
    arguments=(double("timeout"), integer("numkeys"), MANY_KEYS, oneof("where", token("MIN"), token("MAX")),
        optional(integer("count", "COUNT"))))

ZRANGE = family.read("ZRANGE", arity=-4, keys=READS, since="1.2.0",
    summary="Returns members of a sorted set within a range of ranks, scores or names.",
    complexity="O(log(N)+M); N: members of the sorted set, M: members returned",
    arguments=(KEY, string("start"), string("stop"),
        optional(oneof("sortby", token("BYSCORE"), token("BYLEX"), since="6.2.0")),
        switch("REV", since="6.2.0"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT", since="6.2.0")),
        switch("WITHSCORES")),
    history={"6.2.0": "Added REV, BYSCORE, BYLEX and LIMIT."})

ZREVRANGE = family.read("ZREVRANGE", arity=-4, keys=READS, since="1.2.0", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`ZRANGE` with the `REV` argument",
    summary="Returns members of a sorted set within a range of ranks, the highest score first.",
    complexity="O(log(N)+M); N: members of the sorted set, M: members returned",
    arguments=(KEY, integer("start"), integer("stop"), switch("WITHSCORES")))

ZRANGEBYSCORE = family.read("ZRANGEBYSCORE", arity=-4, keys=READS, since="1.0.5", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`ZRANGE` with the `BYSCORE` argument",
    summary="Returns members of a sorted set within a range of scores.",
    complexity=_RANGE_COST,
    arguments=(KEY, double("min"), double("max"), switch("WITHSCORES", since="2.0.0"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT"))),
    history={"2.0.0": "Added WITHSCORES."})

ZREVRANGEBYSCORE = family.read("ZREVRANGEBYSCORE", arity=-4, keys=READS, since="2.2.0",
    doc_flags="deprecated", deprecated_since="6.2.0",
    replaced_by="`ZRANGE` with the `REV` and `BYSCORE` arguments",
    summary="Returns members of a sorted set within a range of scores, the highest first.",
    complexity=_RANGE_COST,
    arguments=(KEY, double("max"), double("min"), switch("WITHSCORES"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT"))),
    history={"2.1.6": "The bounds may be exclusive."})

ZRANGEBYLEX = family.read("ZRANGEBYLEX", arity=-4, keys=READS, since="2.8.9", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`ZRANGE` with the `BYLEX` argument",
    summary="Returns members of a sorted set within a range of names, if all have the same score.",
    complexity=_RANGE_COST,
    arguments=(KEY, string("min"), string("max"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT"))))

ZREVRANGEBYLEX = family.read("ZREVRANGEBYLEX", arity=-4, keys=READS, since="2.8.9", doc_flags="deprecated",
    deprecated_since="6.2.0", replaced_by="`ZRANGE` with the `REV` and `BYLEX` arguments",
    summary="Returns members of a sorted set within a range of names, the last first, if all have the same "
        "score.",
    complexity=_RANGE_COST,
    arguments=(KEY, string("max"), string("min"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT"))))

ZRANGESTORE = family.write("ZRANGESTORE", arity=-5, flags="denyoom",
    keys=(at(1, "OW update"), at(2, "RO access")), since="6.2.0",
    summary="Stores members of a sorted set within a range of ranks, scores or names as another sorted set.",
    complexity="O(log(N)+M); N: members of the sorted set, M: members stored",
    arguments=(key("dst"), key("src", spec=1), string("min"), string("max"),
        optional(oneof("sortby", token("BYSCORE"), token("BYLEX"))), switch("REV"),
        optional(block("limit", integer("offset"), integer("count"), after="LIMIT"))))

ZCOUNT = family.read("ZCOUNT", arity=4, flags="fast", keys=READS, since="2.0.0",
    summary="Counts the members of a sorted set within a range of scores.",
    complexity=_SEARCH_COST,
    arguments=(KEY, double("min"), double("max")))

ZLEXCOUNT = family.read("ZLEXCOUNT", arity=4, flags="fast", keys=READS, since="2.8.9",
    summary="Counts the members of a sorted set within a range of names, if all have the same score.",
    complexity=_SEARCH_COST,
    arguments=(KEY, string("min"), string("max")))

ZREMRANGEBYRANK = family.write("ZREMRANGEBYRANK", arity=4, keys=DELETES, since="2.0.0",
    summary="Removes the members of a sorted set within a range of ranks.",
    complexity=_REMOVAL_COST,
    arguments=(KEY, integer("start"), integer("stop")))

ZREMRANGEBYSCORE = family.write("ZREMRANGEBYSCORE", arity=4, keys=DELETES, since="1.2.0",
    summary="Removes the members of a sorted set within a range of scores.",
    complexity=_REMOVAL_COST,
    arguments=(KEY, double("min"), double("max")))

ZREMRANGEBYLEX = family.write("ZREMRANGEBYLEX", arity=4, keys=DELETES, since="2.8.9",
    summary="Removes the members of a sorted set within a range of names, if all have the same score.",
    complexity=_REMOVAL_COST,
    arguments=(KEY, string("min"), string("max")))

# fmt: on
