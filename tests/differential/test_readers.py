"""A client that sends SYNC or PSYNC without announcing itself: what it is sent after the snapshot."""

import re
import shlex

import pytest
from support.servers import start_server
from support.until import until
from support.wire import split_replies

FIRST = (["SYNC"], ["PSYNC", "?", "-1"], ["PSYNC", "a" * 40, "1"])
LINES = """
    SET b 1; SET p v PX 100000; EXPIRE a 1000; HSETEX h EX 1000 FIELDS 1 f v; HPEXPIRE h 100000 FIELDS 1 f; XADD s 1-1 a b
    EVAL "redis.call('hpexpire','h',100000,'FIELDS',1,'f') return redis.call('set','x',1)" 0; XGROUP CREATE s g 0
    XREADGROUP GROUP g c STREAMS s >; XDELEX s DELREF IDS 1 1-1; XADD s MAXLEN ~ 1 DELREF 2-1 a b; PUBLISH c m; SPOP nosuch
    MSETEX 1 k v EX 100; INCREX i EX 100; DELEX k; GETEX a PERSIST; SELECT 1; SET z 1; SELECT 0; FUNCTION FLUSH
    XCFGSET s IDMP-DURATION 50; HGETDEL h FIELDS 1 f; FLUSHALL; SET last 1
"""


def stream(kind: str, first: list[str]) -> list[str]:
    """The commands of the stream after the snapshot, without pings."""
    flags = ("--repl-diskless-sync-delay", "0")
    with start_server(kind, *flags) as server, server.wire() as wire, server.wire() as reader:
        wire.call("SET", "a", "1")
        wire.call("HSET", "h", "f", "v")
        reader.send(*first)
        until(lambda: b"state=online" in wire.call("INFO", "replication").value)
        for line in LINES.replace("\n", ";").split(";"):
            if line.strip():
                wire.call(*shlex.split(line))
        until(lambda: b"$4\r\nlast\r\n$1\r\n1\r\n" in reader.pending(0.1))
        found = reader.pending()
        commands = found[found.index(b"*2\r\n$6\r\nSELECT") :]
        shown = [re.sub(r"\d{13}", "<ms>", str(each)) for each in split_replies(commands)]
        return [each for each in shown if "ping" not in each.lower()]


@pytest.mark.parametrize("first", FIRST, ids=" ".join)
@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_a_reader_that_announces_nothing_is_sent_the_stream_of_the_real_server(mine, real, first):
    assert stream(mine, first) == stream(real, first)
