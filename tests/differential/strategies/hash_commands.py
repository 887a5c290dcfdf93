"""Generated runs of commands for hashes and bits over three keys, one of which may be a string."""

from differential.strategies.commands import Command, line, maybe, one_of
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

KEYS = ["h", "g", "b"]
KEY = one_of("h", "h", "h", "g", "b")
BITS = one_of("b", "b", "b", "c", "h")
FIELD = one_of("a", "b", "c", "d", "1", "")
FIELDS = st.lists(FIELD, min_size=1, max_size=3)
VALUE = one_of("1", "-20", "2.5", "x", "", "9223372036854775807")
PAIRS = st.lists(line(FIELD, VALUE), min_size=1, max_size=4).map(
    lambda pairs: [word for pair in pairs for word in pair]
)
OFFSET = one_of("0", "1", "7", "9", "20", "-1", "#1")
PLACE = one_of("0", "1", "-1", "2", "-3", "10")
TYPE = one_of("u1", "u8", "i8", "i5", "u63", "i64")

SETTING = st.one_of(
    line(one_of("HSET", "HSET", "HMSET"), KEY, PAIRS),
    line("HSETNX", KEY, FIELD, VALUE),
    line("HINCRBY", KEY, FIELD, one_of("1", "-3", "9223372036854775807", "x")),
    line("HINCRBYFLOAT", KEY, FIELD, one_of("0.1", "-2", "1e3", "x")),
)
LOOKING = st.one_of(
    line(one_of("HGET", "HEXISTS", "HSTRLEN"), KEY, FIELD),
    line("HMGET", KEY, FIELDS),
    line(one_of("HGETALL", "HKEYS", "HVALS", "HLEN", "TYPE"), KEY),
    line("HSCAN", KEY, "0", maybe("MATCH", one_of("a*", "[ab]")), maybe("COUNT", one_of("1", "100"))),
    line("HRANDFIELD", KEY, one_of("0", "9"), maybe("WITHVALUES")),
)
FIELD_OF_BITS = st.one_of(
    line("GET", TYPE, OFFSET),
    line("SET", TYPE, OFFSET, one_of("0", "1", "-1", "200")),
    line("INCRBY", TYPE, OFFSET, one_of("1", "-1", "100")),
    line("OVERFLOW", one_of("WRAP", "SAT")),
)
BITMAPS = st.one_of(
    line("SETBIT", BITS, OFFSET, one_of("0", "1")),
    line("GETBIT", BITS, OFFSET),
    line("BITCOUNT", BITS, maybe(PLACE, PLACE, maybe(one_of("BYTE", "BIT")))),
    line("BITPOS", BITS, one_of("0", "1"), maybe(PLACE, maybe(PLACE, maybe(one_of("BYTE", "BIT"))))),
    line("BITOP", one_of("AND", "OR", "XOR"), BITS, BITS, BITS),
    line("BITOP", "NOT", BITS, BITS),
    line(
        "BITFIELD",
        BITS,
        st.lists(FIELD_OF_BITS, max_size=4).map(lambda parts: [word for part in parts for word in part]),
    ),
    line("GET", BITS),
    line("LCS", BITS, BITS, maybe(one_of("LEN", "IDX"))),
)
OTHERS = st.one_of(
    line("HDEL", KEY, FIELDS),
    line("HDEL", KEY, FIELDS),
    line("DEL", KEY),
    line("SET", "b", one_of("x", "12", "some text")),
    line("RENAME", KEY, KEY),
    line("COPY", KEY, KEY, maybe("REPLACE")),
    line("PEXPIREAT", KEY, one_of("33177117420123", "5")),
)
WEIGHTS = [(SETTING, 5), (LOOKING, 4), (BITMAPS, 5), (OTHERS, 3)]
ONE = st.sampled_from([sort for sort, weight in WEIGHTS for _ in range(weight)]).flatmap(lambda sort: sort)

LAST_LOOKS: list[Command] = [
    *(["HGETALL", key] for key in KEYS),
    *(["GET", key] for key in ("b", "c")),
    *(["PEXPIRETIME", key] for key in KEYS),
]


def hash_runs(size: int) -> SearchStrategy[list[Command]]:
    """Lists of up to `size` commands."""
    return st.lists(ONE, min_size=size // 2, max_size=size)
