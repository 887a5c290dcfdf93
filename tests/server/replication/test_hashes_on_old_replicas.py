"""Replicas that know no times of fields: they hold the same fields, and lose them when the master says so."""

from support.deployments.replication import call, follow, in_step


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
