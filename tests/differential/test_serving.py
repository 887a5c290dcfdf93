"""What a write means for blocked clients: who is served, the events, changes since the last save, counted calls."""

import re
import shlex

import pytest
from support.servers import ServerProcess, start_server
from support.until import until
from support.wire import Wire

READ = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"
# What blocks, and commands that may serve it.
STORIES = [
    ("BLPOP l 0", "RPUSH l a"), ("BLPOP l 0", "RPUSH l a b"),
    ("BLPOP l 0", "LINSERT l BEFORE x y; LPUSHX l a; LPUSH l a"), ("BRPOP l 0", "RPUSH o a; RENAME o l"),
    ("BLPOP l 0", "RPUSH o a; COPY o l"), ("BLPOP l 0", "RPUSH o a; LMOVE o l LEFT LEFT"),
    ("BLPOP l 0", "SET l x; DEL l; RPUSH l a"), ("BLPOP l 0", "MULTI; RPUSH l a; DEL l; EXEC"),
    ("BLPOP l 0", "MULTI; RPUSH l a; LPUSH l b; EXEC"),
    ("BLPOP l 0", "EVAL \"redis.call('rpush','l','a') return redis.call('lpush','l','b')\" 0"),
    ("BLPOP l 0", "SELECT 1; RPUSH l a; SWAPDB 0 1"), ("BLPOP l 0", "SELECT 1; RPUSH l a; MOVE l 0"),
    ("BLMOVE l m LEFT LEFT 0", "RPUSH l a"), ("BLMOVE l m LEFT LEFT 0", "SET m x; RPUSH l a"),
    ("BRPOPLPUSH l l 0", "RPUSH l a b"), ("BLMPOP 0 1 l LEFT COUNT 2", "RPUSH l a b c"), ("BZPOPMIN z 0", "ZADD z 1 a"),
    ("BZPOPMAX z 0", "ZADD o 1 a; ZUNIONSTORE z 1 o"), ("BZPOPMIN z 0", "ZADD o 1 a; ZRANGESTORE z o 0 -1"),
    ("BZPOPMIN z 0", "ZINCRBY z 1 a"), ("BZPOPMIN z 0", "GEOADD z 1 1 a"),
    ("BZMPOP 0 1 z MIN COUNT 2", "ZADD z 1 a 2 b 3 c"), ("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 a b"),
    ("XREAD BLOCK 0 STREAMS s $", "XSETID s 5-0; XADD s 6-1 a b"), ("XREAD BLOCK 0 STREAMS s 5-0", "XADD s 1-1 a b; XADD s 6-1 a b"),
    (READ, "XADD s 1-1 a b"),
    ("XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS s >", "XADD s 1-1 a b"),
    ("XREADGROUP GROUP g new BLOCK 0 STREAMS s >", "XADD s 1-1 a b"),
    (READ, "EVAL \"for i=1,3 do redis.call('xadd','s',i..'-1','a','b') end\" 0"), (READ, "XGROUP DESTROY s g"),
    (READ, "DEL s"), (READ, "SET s x"), (READ, "RENAME s t"), (READ, "FLUSHALL"),
]  # fmt: skip
LOOK = re.compile(rb"^(?:cmdstat_(?:b|xread)|rdb_changes|blocked_cl).*", re.MULTILINE)
COUNTED = re.compile(
    rb"rdb_changes_since_last_save:\d+|cmdstat_(?:b\w+|xread\w*):calls=\d+|failed_calls=\d+|blocked_clients:\d+"
)


def messages(listener: Wire) -> list[str]:
    listener.send("PING")
    found = []
    while (node := listener.read()).kind == ">":
        found.append(f"{node.children[2].value[9:].decode()} {node.children[3].value.decode()}")
    return found


def play(server: ServerProcess, blocking: str, line: str) -> list[object]:
    """Two clients block in the same command; what is seen of them after each write."""
    with (
        server.wire() as wire,
        server.wire() as control,
        server.wire() as first,
        server.wire() as second,
        server.wire(3) as listener,
    ):
        for words in (
            "FLUSHALL", "XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATECONSUMER s g c", "CONFIG RESETSTAT",
        ):  # fmt: skip
            wire.call(*words.split())
        listener.send("PSUBSCRIBE", "__keyevent@*__:*")
        listener.read()
        for number, waiter in enumerate((first, second), 1):
            waiter.send(*blocking.split())
            until(
                lambda number=number: b"blocked_clients:%d" % number in control.call("INFO", "clients").value
            )
        messages(listener)
        before = _changes(control)
        seen: list[object] = []
        for words in map(shlex.split, line.split("; ")):
            wire.call(*words)
            shown = LOOK.findall(control.call("INFO", "everything").value)
            counted = sorted(part for each in shown for part in COUNTED.findall(each) if b"rdb_" not in part)
            replies = [first.pending(0.02), second.pending(0.02)]
            seen.append((words, messages(listener), counted, _changes(control) - before, replies))
        return seen


def _changes(wire: Wire) -> int:
    return int(re.search(rb"since_last_save:(\d+)", wire.call("INFO", "persistence").value)[1])


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_writes_serve_blocked_clients_as_on_the_real_server(mine, real):
    flags = ("--notify-keyspace-events", "EA")
    wrong = []
    with start_server(mine, *flags) as ours, start_server(real, *flags) as theirs:
        for blocking, line in STORIES:
            got, wanted = play(ours, blocking, line), play(theirs, blocking, line)
            pairs = zip(got, wanted, strict=True)
            wrong += [
                f"{blocking}; {line}:\n  {here}\n  real {there}" for here, there in pairs if here != there
            ]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
