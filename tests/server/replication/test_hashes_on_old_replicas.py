"""Replicas that know no times of fields: they hold the same fields, and lose them when the master says so."""

from support.deployments.replication import call, follow, in_step
from support.wire import commands

STORY = commands("""
    HSET h a 1 b 2 c 3 d 4; HEXPIRE h 1000 FIELDS 2 a b; HPERSIST h FIELDS 1 b; HINCRBYFLOAT h a 0.5
    HGETEX h PX 100000 FIELDS 1 c; HGETEX h PERSIST FIELDS 1 c; HSETEX h EX 1000 FIELDS 2 d 5 e 6
    HSETEX h FXX KEEPTTL FIELDS 1 d 7; HGETDEL h FIELDS 1 c; HEXPIRE h 0 FIELDS 1 b
    MSETEX 2 k 1 l 2 PXAT 33177117420123; SET k 3 IFEQ 1 KEEPTTL; SET k 4 IFEQ 3 GET PXAT 33177117420124
    DELEX l IFEQ 2; SET l 3; DELEX l; INCREX n BYINT 5
""")


def test_an_old_replica_holds_the_same_after_each_command(started):
    master = started("rillet", "--compat-version", "8.10", "--repl-ping-replica-period", "3600")
    replica = started("redis7")
    follow(replica, master.port)
    for line in STORY:
        call(master, *line)
        in_step(master, replica)
        assert state(replica) == state(master), line


def test_more_fields_than_a_script_can_pass_on_have_their_times_on_a_newer_replica(started):
    master = started("rillet", "--compat-version", "8.10", "--repl-ping-replica-period", "3600")
    old, new = started("redis7"), started("redis810")
    for replica in (old, new):
        follow(replica, master.port)
    fields = [f"f{number}" for number in range(9000)]
    call(master, "HSET", "h", *(word for field in fields for word in (field, "v")))
    call(
        master, "HSETEX", "i", "PXAT", 33177117420123, "FIELDS", 9000, *(w for f in fields for w in (f, "v"))
    )
    call(master, "HPEXPIREAT", "h", 33177117420123, "NX", "FIELDS", 9000, *fields)
    in_step(master, old, new)
    for key in ("h", "i"):
        assert call(old, "HLEN", key) == 9000
        assert set(call(new, "HPEXPIRETIME", key, "FIELDS", 9000, *fields)) == {33177117420123}
    call(master, "HPERSIST", "h", "FIELDS", 9000, *fields)
    in_step(master, new)
    assert set(call(new, "HPEXPIRETIME", "h", "FIELDS", 9000, *fields)) == {-1}


def test_a_field_that_expires_is_deleted_on_an_old_replica_too(started):
    master = started("rillet", "--compat-version", "8.10", "--repl-ping-replica-period", "3600")
    replica = started("redis7")
    call(master, "HSETEX", "h", "PX", 1, "FIELDS", 1, "a", 1)
    call(master, "HSET", "h", "b", 1)
    follow(replica, master.port)
    while call(master, "HLEN", "h") != 1:
        pass
    in_step(master, replica)
    assert call(replica, "HGETALL", "h") == [b"b", b"1"]


def state(server):
    fields = call(server, "HGETALL", "h")
    return [
        dict(zip(fields[::2], fields[1::2], strict=True)),
        *(call(server, "GET", key) for key in ("k", "l", "n")),
        call(server, "PEXPIRETIME", "k"),
    ]
