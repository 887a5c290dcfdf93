"""Generated runs of list commands over three keys, one of which may be a string, and a few elements."""

from differential.strategies.commands import Command, line, maybe, one_of
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

KEYS = ["l", "m", "n"]
KEY = one_of("l", "l", "m", "n")
ELEMENT = one_of("a", "b", "c", "1", "-20", "")
ELEMENTS = st.lists(ELEMENT, min_size=1, max_size=5)
INDEX = one_of("0", "1", "2", "-1", "-2", "5", "-9")
SIDE = one_of("LEFT", "RIGHT")
COUNT = one_of("0", "1", "2", "3", "-1", "-2")
SOME_KEYS = st.lists(one_of(*KEYS), min_size=1, max_size=3)
COUNTED_KEYS = SOME_KEYS.map(lambda keys: [str(len(keys)), *keys])

ADDING = st.one_of(
    line(one_of("LPUSH", "RPUSH", "LPUSH", "RPUSH", "LPUSHX", "RPUSHX"), KEY, ELEMENTS),
    line("LINSERT", KEY, one_of("BEFORE", "AFTER"), ELEMENT, ELEMENT),
)
TAKING = st.one_of(
    line(one_of("LPOP", "RPOP"), KEY, maybe(one_of("0", "1", "2", "9"))),
    line("LREM", KEY, COUNT, ELEMENT),
    line("LTRIM", KEY, INDEX, INDEX),
    line("LMPOP", COUNTED_KEYS, SIDE, maybe("COUNT", one_of("1", "2", "5"))),
    line("BLMPOP", "0.001", COUNTED_KEYS, SIDE, maybe("COUNT", "2")),
    line(one_of("BLPOP", "BRPOP"), SOME_KEYS, "0.001"),
)
MOVING = st.one_of(
    line("LMOVE", KEY, KEY, SIDE, SIDE),
    line("BLMOVE", KEY, KEY, SIDE, SIDE, "0.001"),
    line("RPOPLPUSH", KEY, KEY),
    line("BRPOPLPUSH", KEY, KEY, "0.001"),
)
LOOKING = st.one_of(
    line("LRANGE", KEY, INDEX, INDEX),
    line("LINDEX", KEY, INDEX),
    line("LSET", KEY, INDEX, ELEMENT),
    line("LLEN", KEY),
    line(
        "LPOS",
        KEY,
        ELEMENT,
        maybe("RANK", one_of("1", "2", "-1", "-2")),
        maybe("COUNT", one_of("0", "1", "2")),
        maybe("MAXLEN", one_of("0", "1", "3")),
    ),
    line("SORT", KEY, "ALPHA", maybe("DESC"), maybe("LIMIT", one_of("0", "1"), COUNT)),
)
OTHERS = st.one_of(
    line("DEL", KEY),
    line("SET", "n", "x"),
    line("RENAME", KEY, KEY),
    line("COPY", KEY, KEY, maybe("REPLACE")),
    line("SORT", KEY, "BY", "nosort", maybe("DESC"), "STORE", KEY),
    line("TYPE", KEY),
)
WEIGHTS = [(ADDING, 6), (TAKING, 4), (MOVING, 3), (LOOKING, 3), (OTHERS, 1)]
ONE = st.sampled_from([sort for sort, weight in WEIGHTS for _ in range(weight)]).flatmap(lambda sort: sort)
TRANSACTION = st.lists(ONE, min_size=1, max_size=5).map(lambda inside: [["MULTI"], *inside, ["EXEC"]])
ALONE = ONE.map(lambda command: [command])

WAITING = st.one_of(
    line(one_of("BLPOP", "BRPOP"), SOME_KEYS, "0"),
    line("BLMOVE", KEY, KEY, SIDE, SIDE, "0"),
    line("BRPOPLPUSH", KEY, KEY, "0"),
    line("BLMPOP", "0", COUNTED_KEYS, SIDE, maybe("COUNT", one_of("1", "2", "3"))),
)

LAST_LOOKS: list[Command] = [
    [*words] for key in KEYS for words in (("LRANGE", key, "0", "-1"), ("TYPE", key))
]


def list_runs(size: int) -> SearchStrategy[list[Command]]:
    """Lists of up to `size` commands, a few of them in transactions."""
    steps = st.sampled_from([ALONE] * 6 + [TRANSACTION]).flatmap(lambda step: step)
    return st.lists(steps, min_size=size // 2, max_size=size).map(
        lambda parts: [command for part in parts for command in part]
    )
