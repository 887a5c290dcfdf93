"""What is propagated, and which events are sent: under redis.set_repl, of times that are past, with lazyfree settings."""

import re
from collections.abc import Iterator

import pytest
from support.aof import AofTail, flags_for
from support.background import at_once
from support.servers import start_server

BEGINNING = (
    "SET k v; SET n 1; SADD t a; RPUSH l a; ZADD z 1 a; HSET h n 1 f v; XADD s 1-0 f v; XADD s 2-0 f v; XGROUP CREATE s g 0; "
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >; PFADD p a b; SET soon v PX 3; XADD soons 1-0 f v; PEXPIRE soons 3; "
    "HPEXPIRE h 3 FIELDS 1 f"
)
CALLED = (
    "get soon; set soon w; exists soon; hget h f; xlen soons; del soon; incr soon; rename soon x; set a w; "
    "xreadgroup group g c streams s >; xreadgroup group g d streams s >; xreadgroup group g c noack streams s >; "
    "xreadgroup group g d noack streams s >; xreadgroup group g c streams s 0; xclaim s g d 0 1-0; xautoclaim s g d 0 0; "
    "xack s g 1-0; xgroup createconsumer s g e; xgroup setid s g 0; spop t; pfcount p; getex k ex 1000; getex k exat 1; "
    "expire k -1; incrbyfloat n 1; publish c m; hincrbyfloat h n 1; hexpire h 0 fields 1 n; hgetex h exat 1 fields 1 n; "
    "xadd s 9-* f v; xtrim s maxlen 0; getdel k; set k v ex 1000; set k v exat 1; lpush l b; zpopmin z; hgetdel h fields 2 n f"
)
SENT = (
    "EXPIRE k -1; PEXPIRE k -1; EXPIREAT k 1; PEXPIREAT k 1; GETEX k EXAT 1; GETEX k PXAT 1; HEXPIRE h 0 FIELDS 1 n; "
    "HEXPIREAT h 1 FIELDS 1 n; HPEXPIREAT h 1 FIELDS 2 n f; HGETEX h EXAT 1 FIELDS 1 n; HSETEX h EXAT 1 FIELDS 1 n v; "
    "SET k v EXAT 1; SET k v PXAT 1 GET; RESTORE k 1 DUMP REPLACE ABSTTL; MSETEX 1 k v EXAT 1; GET soon; SET soon v; "
    "HGET h f; RENAME k soon; COPY k soon; RENAME k l; SINTERSTORE t t zz; SORT zz STORE l; ZRANGESTORE z zz 0 -1; "
    "GETDEL k; SPOP t 9; LTRIM l 5 6; HDEL h f n; HGETDEL h FIELDS 2 f n; HGETDEL h FIELDS 1 f; DELEX k; INCREX n EXAT 1; "
    "SUNIONSTORE t soon; SINTERSTORE soon t zz; SORT zz STORE soon; ZRANGESTORE soon zz 0 -1; BITOP AND soon zz; "
    "ZUNIONSTORE soon 1 zz; GEOSEARCHSTORE soon zz FROMLONLAT 1 1 BYRADIUS 1 km; SDIFFSTORE soon zz; PFMERGE soon zz; "
    "SMOVE t soon a; LMOVE l soon LEFT LEFT; DEL soon; UNLINK k; PERSIST soon; SETNX soon v; MSETNX soon v k2 v; GETSET soon v"
)
LAZY = ("lazyfree-lazy-expire", "lazyfree-lazy-server-del", "lazyfree-lazy-user-del")


def stories() -> Iterator[tuple[str, str, list[str]]]:
    """A name, the lazyfree setting that is on, the words."""
    for mode in ("NONE", "AOF", "REPLICA", "ALL"):
        for call in CALLED.split("; "):
            body = f"redis.set_repl(redis.REPL_{mode}) return redis.pcall(unpack(ARGV))"
            yield f"{call} under REPL_{mode}", "", ["EVAL", body, "0", *call.split()]
    for setting in ("", *LAZY):
        for line in SENT.split("; "):
            yield f"{line} with {setting or 'no lazyfree setting'}", setting, line.split()


def effects(kind: str, *, replica: bool) -> dict[str, tuple[list[bytes], list[str]]]:
    """What each story appends to the file, and its events; also of a replica that clients write to."""
    out = {}
    flags = (*flags_for(kind), "--enable-debug-command", "yes", "--notify-keyspace-events", "KEA")
    with start_server(kind, *flags) as server, server.wire() as wire, server.wire(3) as listener:
        wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        listener.send("PSUBSCRIBE", "__keyevent@0__:*")
        listener.read()
        tail = AofTail(server)
        if replica:
            wire.call("CONFIG", "SET", "replica-read-only", "no")
            wire.call("REPLICAOF", "127.0.0.1", "1")
        for name, setting, words in stories():
            lazy = [["CONFIG", "SET", each, "yes" if each == setting else "no"] for each in LAZY]
            beginning = map(str.split, BEGINNING.split("; "))
            wire.calls([["FLUSHALL"], *lazy, *beginning])
            wire.call("DEBUG", "SLEEP", "0.006")
            payload = wire.call("DUMP", "n").value
            listener.send("PING")
            while listener.read().kind == ">":
                pass
            tail.take()
            wire.call(*(payload if word == "DUMP" else word for word in words))
            listener.send("PING")
            events = []
            while (node := listener.read()).kind == ">":
                events.append(f"{node.children[2].value[15:]!r} {node.children[3].value!r}")
            appended = [re.sub(rb"\d{13}", b"<ms>", b" ".join(each)) for each in tail.take()]
            out[name] = (appended, events)
    return out


@pytest.mark.parametrize("replica", [False, True])
@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_limited_and_past_writes_are_propagated_as_the_real_server_does(mine, real, replica):
    got, wanted = at_once(lambda kind: effects(kind, replica=replica), (mine, real))
    wrong = [f"{name}\n  {got[name]}\n  real {wanted[name]}" for name in wanted if got[name] != wanted[name]]
    assert not wrong, f"{len(wrong)} of {len(wanted)}:\n" + "\n".join(wrong)
