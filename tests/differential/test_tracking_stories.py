"""Stories of client tracking: who is told of a change that a client made, or that others made on its behalf."""

import contextlib
import re
import time
from itertools import product

import pytest
from support.background import at_once
from support.servers import ServerProcess, start_server

MODES = ("", "BCAST", "NOLOOP", "BCAST NOLOOP", "OPTIN", "OPTOUT", "OPTIN NOLOOP", "OPTOUT NOLOOP")
SET = "EVAL return_redis.call('set',KEYS[1],'v') 1 k"
GET = "EVAL return_redis.call('get',KEYS[1]) 1 k"
# Steps of connections 0 (which tracks), 1 and 2; `wait` lets a time pass, a `?` marks a command that blocks.
STORIES: dict[str, str] = {
    "its own SET": "0 GET k; 0 SET k v",
    "its own script": f"0 GET k; 0 {SET}",
    "its own function": "0 GET k; 0 FCALL f 1 k",
    "its own transaction": "0 GET k; 0 MULTI; 0 SET k v; 0 EXEC",
    "a script in its transaction": f"0 GET k; 0 MULTI; 0 {SET}; 0 EXEC",
    "another's SET": "0 GET k; 1 SET k v",
    "another's script": f"0 GET k; 1 {SET}",
    "BLPOP served": "1 ? BLPOP l 0; 0 LLEN l; 0 RPUSH l a",
    "BLPOP served of several": "1 ? BLPOP l 0; 0 LLEN l; 0 RPUSH l a b",
    "BLMOVE served": "1 ? BLMOVE l l2 LEFT LEFT 0; 0 LLEN l; 0 LLEN l2; 0 RPUSH l a",
    "BLMOVE that serves another": "1 ? BLMOVE l l2 LEFT LEFT 0; 2 ? BLPOP l2 0; 0 LLEN l; 0 RPUSH l a",
    "BZPOPMIN served": "1 ? BZPOPMIN z 0; 0 ZCARD z; 0 ZADD z 1 a",
    "XREADGROUP served": "1 ? XREADGROUP GROUP g c BLOCK 0 STREAMS s >; 0 XLEN s; 0 XADD s 1-1 f v",
    "its own BLPOP, served by another": "0 LLEN l; 0 ? BLPOP l 0; 1 RPUSH l a",
    "served in a transaction": "1 ? BLPOP l 0; 0 LLEN l; 0 MULTI; 0 RPUSH l a; 0 EXEC",
    "served by a script": "1 ? BLPOP l 0; 0 LLEN l; 0 EVAL return_redis.call('rpush',KEYS[1],'a') 1 l",
    "a key past its time that it reads": "0 GET soon; wait; 0 GET soon",
    "a key past its time that its write meets": "0 GET soon; wait; 0 SET soon v",
    "a key past its time that its script meets": "0 GET soon; wait; 0 EVAL return_redis.call('get',KEYS[1]) 1 soon",
    "a key past its time that another reads": "0 GET soon; wait; 1 GET soon",
    "a hash whose last field is past its time": "0 HGET h f; wait; 0 HGET h f",
    "RENAME": "0 GET k; 0 GET k2; 0 RENAME k k2",
    "FLUSHALL of its own": "0 GET k; 0 FLUSHALL",
    "FLUSHALL of another": "0 GET k; 1 FLUSHALL",
    "FLUSHALL in its script": "0 GET k; 0 EVAL return_redis.call('flushall') 0",
    "CACHING": "0 CLIENT CACHING yes; 0 GET k; 1 SET k v; 0 GET k; 1 SET k w",
    "not CACHING": "0 CLIENT CACHING no; 0 GET k; 1 SET k v; 0 GET k; 1 SET k w",
    "CACHING before MULTI": "0 CLIENT CACHING yes; 0 MULTI; 0 GET k; 0 GET k2; 0 EXEC; 1 SET k v; 1 SET k2 v",
    "CACHING in MULTI": "0 MULTI; 0 CLIENT CACHING yes; 0 GET k; 0 GET k2; 0 EXEC; 1 SET k v; 1 SET k2 v",
    "not CACHING before MULTI": "0 CLIENT CACHING no; 0 MULTI; 0 GET k; 0 GET k2; 0 EXEC; 1 SET k v; 1 SET k2 v",
    "not CACHING in MULTI": "0 MULTI; 0 CLIENT CACHING no; 0 GET k; 0 GET k2; 0 EXEC; 1 SET k v; 1 SET k2 v",
    "CACHING before a script": f"0 CLIENT CACHING yes; 0 {GET}; 1 SET k v; 0 {GET}; 1 SET k v",
    "not CACHING before a script": f"0 CLIENT CACHING no; 0 {GET}; 1 SET k v; 0 {GET}; 1 SET k v",
    "CACHING before a refused command": "0 CLIENT CACHING yes; 0 NOSUCH; 0 GET k; 1 SET k v",
    "CACHING before an error": "0 CLIENT CACHING yes; 0 LLEN k; 0 GET k; 1 SET k v",
    "CACHING and CLIENT": "0 CLIENT CACHING yes; 0 CLIENT GETNAME; 0 GET k; 1 SET k v",
    "a table that shrinks": "0 GET k; 0 GET k2; 0 GET l; 1 CONFIG SET tracking-table-max-keys 1",
    "a table that shrinks, by itself": "0 GET k; 0 GET k2; 0 GET l; 0 CONFIG SET tracking-table-max-keys 1",
    "a table that is small": "1 CONFIG SET tracking-table-max-keys 1; 0 GET k; 0 GET k2; 0 GET l",
    "a table without a limit": "1 CONFIG SET tracking-table-max-keys 0; 0 GET k; 0 GET k2; 1 SET k v",
    "a script that reads what it does not name": "0 EVAL return_redis.call('get','k') 0; 1 SET k v",
    "SWAPDB": "0 GET k; 1 SWAPDB 0 1",
    "a key of another database": "0 GET k; 1 SELECT 1; 1 SET k v",
}


# pops-for-waiters-as-7.0
POPS = re.compile(r"\? (BLPOP|BLMOVE) l ")


def play(server: ServerProcess, mode: str, story: str) -> list[str]:
    """What each connection is sent, in its order; PING shows where one step ends."""
    lasting = 100
    while True:
        with contextlib.suppress(LateError):
            return _play(server, mode, story, lasting)
        lasting *= 2


class LateError(Exception):
    """The machine stood still: what was to expire in the `wait` of a story may have expired before."""


def _play(server: ServerProcess, mode: str, story: str, lasting: int) -> list[str]:
    """As `play`; a key and a field are there for so many milliseconds."""
    out: list[str] = []
    begun = time.monotonic()
    with server.wire(3) as tracking, server.wire() as other, server.wire() as third, server.wire() as control:
        wires = [tracking, other, third]
        for words in (
            ["FLUSHALL"], ["CONFIG", "SET", "tracking-table-max-keys", "1000000"], ["SET", "k", "v"], ["SET", "k2", "v"],
            ["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"], ["SET", "soon", "v", "PX", lasting], ["HSET", "h", "f", "v"],
            ["HPEXPIRE", "h", lasting, "FIELDS", "1", "f"], ["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
        ):  # fmt: skip
            control.call(*words)
        tracking.call("CLIENT", "TRACKING", "ON", *mode.split())
        known = [wire.call("CLIENT", "ID").value for wire in wires]
        blocked: set[int] = set()
        queueing: set[int] = set()
        for step in story.split("; "):
            if step == "wait":
                if time.monotonic() - begun > lasting / 1000:
                    raise LateError
                control.call("DEBUG", "SLEEP", f"{lasting / 1000 + 0.02}")
                continue
            number, *words = step.split()
            acting = int(number)
            wire = wires[acting]
            words = [word.replace("return_", "return ") for word in words]
            got: list[list[str]] = [[], [], []]
            if words[0] == "?":
                wire.send(*words[1:])
                blocked.add(acting)
                while not _is_blocked(control.call("CLIENT", "LIST").value, b"id=%s " % known[acting]):
                    pass
            else:
                wire.send(*words)
                while not got[acting] or got[acting][-1].startswith(">"):
                    got[acting].append(str(wire.read()))
                if words == ["MULTI"]:
                    queueing.add(acting)
                elif words == ["EXEC"]:
                    queueing.discard(acting)
            control.call("PING")
            for at, each in enumerate(wires):
                if at in blocked:
                    if each.pending(0.02):
                        blocked.discard(at)
                        got[at].append(str(each.read()))
                elif at not in queueing:
                    each.send("PING", "end")
                    while (reply := str(each.read())) != '$"end"':
                        got[at].append(reply)
                shown = " ".join(got[at])
                if "tracking-table-max-keys 1" in story:  # which keys a table loses is chance
                    shown = re.sub(r"\*\[\$\"\w+\"\]", "a key", shown)
                out.append(f"{step}: {at}: {shown}")
    return out


def _is_blocked(clients: bytes, number: bytes) -> bool:
    line = next(line for line in clients.split(b"\n") if line.startswith(number))
    return b"b" in line.partition(b" flags=")[2].split()[0]


def told(kind: str, told_of: list[tuple[str, str]]) -> list[list[str]]:
    """What a server of a kind tells in each mode and story."""
    with start_server(kind, "--enable-debug-command", "yes") as server:
        with server.wire() as wire:
            wire.call(
                "FUNCTION", "LOAD",
                "#!lua name=l\nredis.register_function('f', function(keys) return redis.call('set',keys[1],'v') end)",
            )  # fmt: skip
        return [play(server, mode, story) for mode, story in told_of]


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_clients_are_told_of_the_same_changes(mine, real):
    names = {
        (mode, story): f"{mode}: {name}"
        for mode, (name, story) in product(MODES, STORIES.items())
        if real != "redis7" or not ("HGET" in story or (mode == "BCAST NOLOOP" and POPS.search(story)))
    }
    wrong = []
    for name, got, wanted in zip(
        names.values(), *at_once(lambda kind: told(kind, list(names)), (mine, real)), strict=True
    ):
        if got != wanted:
            pairs = [
                f"  {here}\n  real {there}" for here, there in zip(got, wanted, strict=True) if here != there
            ]
            wrong.append(f"{name}\n" + "\n".join(pairs))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
