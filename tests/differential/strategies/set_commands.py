"""Generated commands for sets, sorted sets and HyperLogLogs, chance left out."""

from differential.strategies.commands import Command, line, maybe, one_of
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

KEYS = ("s", "t", "u", "y", "z", "h", "string")

SET = one_of("s", "s", "t", "u")
ANY_SET = one_of("s", "t", "u", "z", "missing", "string")
SORTED = one_of("z", "z", "y")
ANY_SORTED = one_of("z", "y", "s", "missing", "string")
MEMBER = one_of("a", "b", "c", "d", "1", "2", "3", "-4", "01", "", "longer than five")
MEMBERS = st.lists(MEMBER, min_size=1, max_size=5)
SCORE = one_of("0", "1", "2", "2", "-1.5", "0.5", "inf", "-inf", "1e3")
PAIRS = st.lists(st.tuples(SCORE, MEMBER).map(list), min_size=1, max_size=5).map(
    lambda pairs: [word for pair in pairs for word in pair]
)
COUNT = one_of("0", "1", "2", "99")
RANK = one_of("0", "1", "2", "-1", "-2", "9", "x")
BOUND = one_of("0", "1", "(1", "(2", "2", "-inf", "+inf", "(inf", "x")
NAME = one_of("-", "+", "[a", "(a", "[b", "(c", "[", "[1", "x")
LIMIT = maybe("LIMIT", one_of("0", "1", "2"), one_of("-1", "0", "1", "2"))
SCORES = maybe("WITHSCORES")
SOME = st.lists(ANY_SET, min_size=1, max_size=3)


def counted(keys: SearchStrategy[str]) -> SearchStrategy[Command]:
    """``numkeys key ...``."""
    return st.lists(keys, min_size=1, max_size=3).map(lambda found: [str(len(found)), *found])


SETS = st.one_of(
    line("SADD", SET, MEMBERS),
    line("SADD", ANY_SET, MEMBERS),
    line("SREM", SET, MEMBERS),
    line("SMOVE", ANY_SET, ANY_SET, MEMBER),
    line("SPOP", SET, one_of("0", "99", "-1")),
    line("SRANDMEMBER", ANY_SET, one_of("0", "99")),
    line("SISMEMBER", ANY_SET, MEMBER),
    line("SMISMEMBER", SET, MEMBERS),
    line("SCARD", ANY_SET),
    line("SMEMBERS", ANY_SET),
    line("SSCAN", ANY_SET, "0", "COUNT", "1000", maybe("MATCH", "[a-c1]*")),
    line(one_of("SINTER", "SUNION", "SDIFF"), SOME),
    line(one_of("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"), ANY_SET, SOME),
    line("SINTERCARD", counted(ANY_SET), maybe("LIMIT", COUNT)),
)
ADDING = st.one_of(
    line("ZADD", SORTED, PAIRS),
    line("ZADD", "l", "0", MEMBER, "0", MEMBER),
    line(
        "ZADD",
        ANY_SORTED,
        maybe(one_of("NX", "XX")),
        maybe(one_of("GT", "LT")),
        maybe("CH"),
        PAIRS,
    ),
    line("ZADD", SORTED, maybe(one_of("NX", "XX", "GT", "LT")), "INCR", SCORE, MEMBER),
    line("ZINCRBY", ANY_SORTED, SCORE, MEMBER),
)
LOOKING = st.one_of(
    line("ZSCORE", ANY_SORTED, MEMBER),
    line("ZMSCORE", SORTED, MEMBERS),
    line(one_of("ZRANK", "ZREVRANK"), SORTED, MEMBER),
    line("ZCARD", ANY_SORTED),
    line("ZCOUNT", SORTED, BOUND, BOUND),
    line("ZLEXCOUNT", "l", NAME, NAME),
    line("ZSCAN", ANY_SORTED, "0", "COUNT", "1000", maybe("MATCH", "[a-c1]*")),
    line("ZRANDMEMBER", SORTED, one_of("0", "99"), SCORES),
    line("ZRANGE", ANY_SORTED, RANK, RANK, maybe("REV"), SCORES),
    line("ZRANGE", SORTED, BOUND, BOUND, "BYSCORE", maybe("REV"), LIMIT, SCORES),
    # A range of names is defined among equal scores only, which "l" has.
    line("ZRANGE", "l", NAME, NAME, "BYLEX", maybe("REV"), LIMIT),
    line("ZREVRANGE", SORTED, RANK, RANK, SCORES),
    line(one_of("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), ANY_SORTED, BOUND, BOUND, SCORES, LIMIT),
    line(one_of("ZRANGEBYLEX", "ZREVRANGEBYLEX"), "l", NAME, NAME, LIMIT),
)
TAKING = st.one_of(
    line("ZREM", ANY_SORTED, MEMBERS),
    line("ZREMRANGEBYRANK", SORTED, RANK, RANK),
    line("ZREMRANGEBYSCORE", SORTED, BOUND, BOUND),
    line("ZREMRANGEBYLEX", "l", NAME, NAME),
    line(one_of("ZPOPMIN", "ZPOPMAX"), ANY_SORTED, maybe(COUNT)),
    line("ZMPOP", counted(ANY_SORTED), one_of("MIN", "MAX"), maybe("COUNT", one_of("1", "2"))),
    line(one_of("BZPOPMIN", "BZPOPMAX"), SORTED, "string", "0.01"),
    line("BZMPOP", "0.01", "2", SORTED, "string", one_of("MIN", "MAX"), maybe("COUNT", "2")),
)
ALGEBRA = st.one_of(
    line(
        one_of("ZUNION", "ZINTER"),
        counted(ANY_SORTED),
        maybe("AGGREGATE", one_of("SUM", "MIN", "MAX")),
        SCORES,
    ),
    line("ZUNION", "2", ANY_SORTED, ANY_SORTED, "WEIGHTS", SCORE, SCORE, SCORES),
    line("ZDIFF", counted(ANY_SORTED), SCORES),
    line(
        one_of("ZUNIONSTORE", "ZINTERSTORE"),
        ANY_SORTED,
        counted(ANY_SORTED),
        maybe("AGGREGATE", one_of("SUM", "MIN", "MAX")),
    ),
    line("ZINTERSTORE", SORTED, "2", ANY_SORTED, ANY_SORTED, "WEIGHTS", SCORE, SCORE),
    line("ZDIFFSTORE", SORTED, counted(ANY_SORTED)),
    line("ZINTERCARD", counted(ANY_SORTED), maybe("LIMIT", COUNT)),
    line("ZRANGESTORE", SORTED, ANY_SORTED, RANK, RANK),
    line("ZRANGESTORE", SORTED, SORTED, BOUND, BOUND, "BYSCORE", LIMIT),
)
COUNTERS = st.one_of(
    line("PFADD", one_of("h", "h2", "string"), MEMBERS),
    line("PFCOUNT", st.lists(one_of("h", "h2", "missing"), min_size=1, max_size=2)),
    line("PFMERGE", one_of("h", "h2"), one_of("h", "h2", "missing")),
)
OTHERS = st.one_of(
    line("DEL", one_of(*KEYS)),
    line("SET", "string", "x"),
    line("TYPE", one_of(*KEYS)),
    line("RENAME", one_of("s", "t", "y", "z"), one_of("s", "t", "y", "z")),
    line("COPY", one_of("s", "z"), one_of("u", "y"), maybe("REPLACE")),
    line("PEXPIREAT", one_of("s", "z"), "33177117420123"),
    line("PEXPIRETIME", one_of("s", "z")),
)
# Sets that are unordered: their replies are compared sorted.
UNORDERED = frozenset(("SMEMBERS", "SINTER", "SUNION", "SDIFF", "SPOP", "SRANDMEMBER"))
SCANS = frozenset(("SSCAN", "ZSCAN"))

BEGINNING: list[Command] = [
    ["SADD", "s", "a", "b", "1"],
    ["SADD", "t", "1", "2", "3"],
    ["ZADD", "z", "1", "a", "2", "b", "2", "c"],
    ["ZADD", "l", "0", "a", "0", "b", "0", "c", "0", "d"],
    ["ZADD", "y", "0", "a", "0", "b", "0", "d"],
]
LAST_LOOKS: list[Command] = [
    *(["SMEMBERS", key] for key in ("s", "t", "u")),
    *(["ZRANGE", key, "0", "-1", "WITHSCORES"] for key in ("y", "z")),
    *(["TYPE", key] for key in KEYS),
    *(["PEXPIRETIME", key] for key in KEYS),
    ["GET", "h"],
]
ENCODINGS: list[Command] = [["OBJECT", "ENCODING", key] for key in ("s", "t", "u", "y", "z")]

_SORTS = (SETS, SETS, SETS, ADDING, ADDING, LOOKING, LOOKING, TAKING, ALGEBRA, ALGEBRA, COUNTERS, OTHERS)


def set_runs(size: int) -> SearchStrategy[list[Command]]:
    """Lists of up to ``size`` commands."""
    one = st.sampled_from(_SORTS).flatmap(lambda sort: sort)
    return st.lists(one, min_size=size // 2, max_size=size).map(lambda run: BEGINNING + run)
