"""Generated runs of commands over a small universe of keys, groups, consumers and ids.

A run is a list of commands (lists of words). Replies must not depend on how long anything took: minimal idle
times are 0 or enormous, and what is to count as old is made old by IDLE or TIME.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.thorough import examples

Command = list[str]

# RILLET_FUZZ=100 tests a hundred times as much.
FUZZ = int(os.environ.get("RILLET_FUZZ", "1"))

AGES = "1000000000"
STREAMS = ["s", "t"]
GROUPS = ["g", "h"]
CONSUMERS = ["a", "b"]
IDS = [f"{ms}-{seq}" for ms in range(1, 7) for seq in range(2)]

# Entries per node, so that ~ has something to cut.
NODE_ENTRIES = 3


def fuzz_settings(number: int, **more: object) -> settings:
    """Settings for a test that talks to servers: no deadline, `examples(number)` times RILLET_FUZZ."""
    return settings(
        max_examples=examples(number) * FUZZ,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )


def one_of(*words: str) -> SearchStrategy[str]:
    return st.sampled_from(words)


def line(*parts: object) -> SearchStrategy[Command]:
    """A command from words and from strategies of words or of lists of words."""
    made = [part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts]

    def flatten(values: tuple[object, ...]) -> Command:
        words: Command = []
        for value in values:
            words.extend(value) if isinstance(value, (list, tuple)) else words.append(str(value))
        return words

    return st.tuples(*made).map(flatten)


def maybe(*parts: object) -> SearchStrategy[Command]:
    return st.one_of(st.just([]), line(*parts))


KEY = one_of("s", "s", "s", "t")
ANY_KEY = one_of("s", "s", "t", "string", "missing")
GROUP = one_of("g", "g", "h")
CONSUMER = one_of(*CONSUMERS)
ID = one_of(*IDS)
SOME_IDS = st.lists(ID, min_size=1, max_size=4)
COUNT = one_of("0", "1", "2", "3")
MIN_IDLE = one_of("0", "0", "0", AGES)
TRIM = st.one_of(
    line("MAXLEN", one_of("=", "~"), one_of("0", "1", "3", "5")),
    line("MINID", one_of("=", "~"), ID),
    line("MAXLEN", "~", one_of("0", "2"), "LIMIT", one_of("0", "2", "3", "6")),
)

XADD = line(
    "XADD",
    KEY,
    maybe(TRIM),
    st.one_of(ID, st.integers(1, 9).map("{}-*".format), st.integers(3, 12).map("{}-0".format)),
    "f",
    one_of("v", "w"),
    maybe("g", "x"),
)
READ = line("XREADGROUP", "GROUP", GROUP, CONSUMER, maybe("COUNT", COUNT), "STREAMS", KEY, ">")
READ_TWO = line("XREADGROUP", "GROUP", GROUP, CONSUMER, maybe("COUNT", COUNT), "STREAMS", "s", "t", ">", ">")
READ_NOACK = line("XREADGROUP", "GROUP", GROUP, CONSUMER, maybe("COUNT", COUNT), "NOACK", "STREAMS", KEY, ">")
HISTORY = line(
    "XREADGROUP", "GROUP", GROUP, CONSUMER, maybe("COUNT", COUNT), "STREAMS", KEY, st.one_of(st.just("0"), ID)
)
XCLAIM = line(
    "XCLAIM",
    KEY,
    GROUP,
    CONSUMER,
    MIN_IDLE,
    SOME_IDS,
    maybe(st.one_of(line("IDLE", one_of("0", "2000000000")), line("TIME", one_of("5", "1000", "-1")))),
    maybe("RETRYCOUNT", one_of("0", "1", "7", "-1")),
    maybe("FORCE"),
    maybe("JUSTID"),
    maybe("LASTID", ID),
)
XAUTOCLAIM = line(
    "XAUTOCLAIM",
    KEY,
    GROUP,
    CONSUMER,
    MIN_IDLE,
    st.one_of(st.just("-"), ID),
    maybe("COUNT", one_of("1", "2", "5")),
    maybe("JUSTID"),
)
GROUPS_AND_CONSUMERS = st.one_of(
    line(
        "XGROUP",
        "CREATE",
        KEY,
        GROUP,
        st.one_of(one_of("0", "$"), ID),
        maybe("MKSTREAM"),
        maybe("ENTRIESREAD", one_of("0", "2")),
    ),
    line(
        "XGROUP",
        "SETID",
        KEY,
        GROUP,
        st.one_of(one_of("0", "$"), ID),
        maybe("ENTRIESREAD", one_of("-1", "0", "1", "3")),
    ),
    line("XGROUP", "CREATECONSUMER", KEY, GROUP, CONSUMER),
    line("XGROUP", "DELCONSUMER", KEY, GROUP, CONSUMER),
    line("XGROUP", "DESTROY", KEY, GROUP),
)
TAKING_AWAY = st.one_of(
    line("XDEL", KEY, SOME_IDS),
    line("XTRIM", KEY, TRIM),
    line("XACK", KEY, GROUP, SOME_IDS),
    line("XACK", KEY, GROUP, SOME_IDS),
)
LOOKING = st.one_of(
    line("XPENDING", KEY, GROUP),
    line(
        "XPENDING",
        KEY,
        GROUP,
        maybe("IDLE", one_of("0", AGES)),
        one_of("-", "2", "(2-0"),
        one_of("+", "4"),
        one_of("1", "9"),
        maybe(CONSUMER),
    ),
    line("XRANGE", ANY_KEY, one_of("-", "2", "(2-0"), one_of("+", "4"), maybe("COUNT", COUNT)),
    line("XREVRANGE", KEY, one_of("+", "4"), one_of("-", "2")),
    line("XREAD", maybe("COUNT", COUNT), "STREAMS", "s", "t", ID, one_of("0", "$")),
    line("XLEN", ANY_KEY),
    line("TYPE", ANY_KEY),
)
KEYS = st.one_of(
    line("DEL", KEY),
    line("SET", one_of("string", "string", "t"), "x"),
    line("RENAME", one_of("s", "t"), one_of("s", "t")),
    line("COPY", "s", "t", maybe("REPLACE")),
    line("PEXPIREAT", KEY, one_of("33177117420123", "5")),
    line("PERSIST", KEY),
    line("PEXPIRETIME", KEY),
    line(
        "XSETID",
        KEY,
        one_of("20-0", "30-0"),
        maybe("ENTRIESADDED", one_of("30", "50")),
        maybe("MAXDELETEDID", ID),
    ),
)

# Reads that wait.
WAITING = st.one_of(
    line(
        "XREADGROUP",
        "GROUP",
        GROUP,
        CONSUMER,
        maybe("COUNT", COUNT),
        "BLOCK",
        "0",
        maybe("NOACK"),
        "STREAMS",
        KEY,
        ">",
    ),
    line(
        "XREADGROUP",
        "GROUP",
        GROUP,
        CONSUMER,
        maybe("COUNT", "1"),
        "BLOCK",
        "0",
        "STREAMS",
        "s",
        "t",
        ">",
        ">",
    ),
    line("XREAD", maybe("COUNT", COUNT), "BLOCK", "0", "STREAMS", KEY, st.one_of(st.just("$"), ID)),
    line("XREAD", "BLOCK", "0", "STREAMS", "s", "t", "$", one_of("$", "3-0")),
)

# How often each sort is drawn (a `one_of` of `one_of`s would be flattened, and the weights lost).
WEIGHTS = [
    (XADD, 6),
    (READ, 5),
    (READ_TWO, 1),
    (READ_NOACK, 1),
    (HISTORY, 2),
    (XCLAIM, 6),
    (XAUTOCLAIM, 3),
    (GROUPS_AND_CONSUMERS, 3),
    (TAKING_AWAY, 4),
    (LOOKING, 3),
    (KEYS, 2),
]
ONE = st.sampled_from([sort for sort, weight in WEIGHTS for _ in range(weight)]).flatmap(lambda sort: sort)
TRANSACTION = st.lists(ONE, min_size=1, max_size=4).map(lambda inside: [["MULTI"], *inside, ["EXEC"]])
ALONE = ONE.map(lambda command: [command])

# A stream with groups from the start: most generated commands then find something to do.
BEGINNING: list[Command] = [
    ["XADD", "s", "1-0", "f", "v"],
    ["XADD", "s", "2-0", "f", "v"],
    ["XADD", "s", "2-1", "f", "w", "g", "x"],
    ["XGROUP", "CREATE", "s", "g", "0"],
    ["XGROUP", "CREATE", "s", "h", "$"],
    ["XGROUP", "CREATE", "t", "g", "0", "MKSTREAM"],
]


def runs(size: int = 40) -> SearchStrategy[list[Command]]:
    """Lists of up to `size` commands, a few of them in transactions."""
    steps = st.sampled_from([ALONE] * 9 + [TRANSACTION]).flatmap(lambda step: step)
    return st.lists(steps, min_size=size // 2, max_size=size).map(
        lambda parts: BEGINNING + [command for part in parts for command in part]
    )


def with_explicit_consumers(run: list[Command]) -> list[Command]:
    """The same run where consumers exist before they read or claim: 7.0 made them only on success."""
    out = []
    for command in run:
        consumer = consumer_of(command)
        if consumer is not None:
            group, name, keys = consumer
            out += [["XGROUP", "CREATECONSUMER", key, group, name] for key in keys]
        out.append(command)
    return out


def consumer_of(command: Command) -> tuple[str, str, list[str]] | None:
    """Group, consumer and keys of a command that would make a consumer."""
    if command[0] == "XREADGROUP":
        words = command[command.index("STREAMS") + 1 :]
        return command[2], command[3], words[: len(words) // 2]
    if command[0] in {"XCLAIM", "XAUTOCLAIM"}:
        return command[2], command[3], [command[1]]
    return None


def masks_of(command: Command) -> list[str]:
    """The positions of a command's reply that are times."""
    if command[0] == "XPENDING" and len(command) > 3:
        return ["ms:*.2"]
    if command[:2] == ["XINFO", "STREAM"]:
        return [
            "ms:groups.*.consumers.*.seen-time",
            "ms:groups.*.consumers.*.active-time",
            "ms:groups.*.pending.*.2",
            "ms:groups.*.consumers.*.pending.*.1",
        ]
    return []
