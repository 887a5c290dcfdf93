"""Newer effects reach the replicas that understand them, also beside one that does not."""

import pytest
from support.deployments.replication import call, follow, in_step, info
from support.servers import compared
from support.wire import commands

NEWEST = ("--compat-version", "8.10", "--repl-ping-replica-period", "3600")
BEFORE = commands("""
    HSET h a 1 b 2 c 3; HEXPIRE h 5000 FIELDS 2 a b; HSETEX x EX 100000 FIELDS 2 f 1 g 2; XADD s 1-0 f v
    XADD s 2-0 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >; XNACK s g FAIL IDS 1 1-0
    XADD p IDMP producer one * f v
""")
AFTER = commands("""
    HPERSIST h FIELDS 1 a; HEXPIRE h 9000 FIELDS 1 b; HGETEX h PX 100000 FIELDS 1 c
    HSETEX h KEEPTTL FIELDS 2 b 5 d 6; HINCRBYFLOAT h c 0.5; HGETEX x PERSIST FIELDS 1 f
    HSETEX x FXX EX 777 FIELDS 1 g 3; HSET x h 1; HEXPIRE x 500 NX FIELDS 2 g h; HGETDEL x FIELDS 1 f
    HSETEX new EX 1000 FIELDS 1 q 1; XNACK s g FATAL IDS 1 2-0; XCFGSET p IDMP-MAXSIZE 7
    XADD p IDMP producer two * f v; XADD p IDMP producer two * f again; XADD p IDMPAUTO other * f v
    HGETEX h PERSIST FIELDS 1 c; HSETEX h FXX KEEPTTL FIELDS 1 d 7; HEXPIRE h 0 FIELDS 1 b
    MSETEX 2 k 1 l 2 PXAT 33177117420123; SET k 3 IFEQ 1 KEEPTTL; SET k 4 IFEQ 3 GET PXAT 33177117420124
    DELEX l IFEQ 2; SET l 3; DELEX l; INCREX n BYINT 5
""")


def fields_of(server, *, times=True):
    """Hashes and strings; times of fields are what an old replica lacks."""
    seen = {"strings": [call(server, "MGET", "k", "l", "n"), call(server, "PEXPIRETIME", "k")]}
    for key in ("h", "x", "new"):
        words = call(server, "HGETALL", key)
        names = sorted(words[::2])
        seen[key] = dict(zip(words[::2], words[1::2], strict=True))
        if times and names:
            seen[key, "times"] = call(server, "HPEXPIRETIME", key, "FIELDS", len(names), *names)
    return seen


def streams_of(server):
    """NACK marks and producers."""
    pending = call(server, "XPENDING", "s", "g", "-", "+", 10)
    settings = call(server, "XINFO", "STREAM", "p")
    facts = dict(zip(settings[::2], settings[1::2], strict=True))
    return (
        [(entry[0], entry[1], entry[3]) for entry in pending],
        call(server, "XINFO", "CONSUMERS", "s", "g")[0][:4],
        {name: facts[name] for name in (b"idmp-maxsize", b"pids-tracked", b"iids-tracked", b"length")},
    )


def run(master, lines):
    for line in lines:
        call(master, *line)


@pytest.mark.parametrize("kind", ["redis810", "rillet-8.10"])
def test_field_times_reach_a_replica_by_the_snapshot_and_by_the_stream(started, kind):
    master, replica = started("rillet", *NEWEST), started(kind)
    run(master, BEFORE)
    follow(replica, master.port)
    assert fields_of(replica) == fields_of(master)
    assert streams_of(replica) == streams_of(master)
    for line in AFTER:
        call(master, *line)
        in_step(master, replica)
        assert fields_of(replica) == fields_of(master), line
    assert streams_of(replica) == streams_of(master)
    assert "CRITICAL" not in replica.log
    assert info(master, "repl_stream_version") == ""


@pytest.mark.parametrize("kind", ["redis810", "rillet-8.10"])
@pytest.mark.parametrize("old", ["redis7", "valkey"])
def test_beside_an_old_replica_each_gets_what_it_understands(started, kind, old):
    master, replica, other = started("rillet", *NEWEST), started(kind), started(old)
    run(master, BEFORE)
    follow(replica, master.port)
    follow(other, master.port)
    for line in AFTER:
        call(master, *line)
        in_step(master, replica, other)
        assert fields_of(replica) == fields_of(master), line
        assert fields_of(other, times=False) == fields_of(master, times=False), line
    assert streams_of(replica) == streams_of(master)
    assert "CRITICAL" not in replica.log
    assert "CRITICAL" not in other.log
    assert info(master, "repl_stream_version") == {"redis7": "7.0", "valkey": "7.2"}[old]
    assert "from now on all replicas get older commands" in master.log
    assert (
        "has no place for 4 times of hash fields, 1 marks of entries given back by XNACK, 1 ids" in master.log
    )


@pytest.mark.parametrize("old", ["redis7", "valkey"])
def test_a_restored_value_reaches_an_old_replica_in_a_form_that_it_reads(started, old):
    master, replica, other = started("rillet", *NEWEST), started("redis810"), started(old)
    run(master, BEFORE)
    follow(replica, master.port)
    follow(other, master.port)
    for key in ("h", "s", "p"):
        payload = call(master, "DUMP", key)
        call(master, "DEL", key)
        assert call(master, "RESTORE", key, 0, payload) == b"OK"
        assert call(master, "RESTORE", key, 10_000_000, payload, "REPLACE") == b"OK"
    in_step(master, replica, other)
    assert fields_of(replica) == fields_of(master)
    assert streams_of(replica) == streams_of(master)
    assert fields_of(other, times=False) == fields_of(master, times=False)
    assert call(other, "PEXPIRETIME", "h") == call(master, "PEXPIRETIME", "h")
    assert "CRITICAL" not in other.log


def test_replicas_that_come_together_get_a_snapshot_each(started):
    master = started("rillet", *NEWEST, "--repl-diskless-sync-delay", 1)
    replica, other = started("redis810"), started("redis7")
    run(master, BEFORE)
    for each in (replica, other):
        call(each, "REPLICAOF", "127.0.0.1", master.port)
    in_step(master, replica, other)
    assert fields_of(replica) == fields_of(master)
    assert streams_of(replica) == streams_of(master)
    assert fields_of(other, times=False) == fields_of(master, times=False)


SNAPSHOTS = {"redis810": 15, "redis82": 12, "redis86": 13}


@pytest.mark.parametrize("kind", compared(*SNAPSHOTS))
def test_repl_rdb_version_says_what_replicas_without_a_version_are(started, kind):
    version = SNAPSHOTS[kind]
    master, replica = started("rillet", *NEWEST, "--repl-rdb-version", version), started(kind)
    run(master, BEFORE)
    follow(replica, master.port)
    run(master, AFTER)
    in_step(master, replica)
    assert fields_of(replica) == fields_of(master)
    assert "CRITICAL" not in replica.log
    assert info(master, "repl_stream_version") == {12: "8.0", 13: "8.6", 15: ""}[version]


def test_a_promoted_replica_goes_on_with_the_times(started):
    master, replica = started("rillet", *NEWEST), started("redis810")
    run(master, BEFORE)
    follow(replica, master.port)
    call(master, "HPEXPIRE", "h", 1, "FIELDS", 1, "a")
    call(master, "HPERSIST", "h", "FIELDS", 1, "b")
    in_step(master, replica)
    expected = fields_of(master)
    call(replica, "REPLICAOF", "NO", "ONE")
    assert fields_of(replica) == expected
    assert "a" not in expected["h"]
