"""What the scripts of tests/differential do not show of hashes: walks over large ones, random fields, the active cycle."""

import pytest
from support.fake_server import FakeServer, effects, make_client, reply, run

from rillet.commands.spec.versions import compat_with

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    server = FakeServer(now=NOW)
    server.keyspace.on_field_expired = lambda db, key, field: server.propagation.add(
        db.index, [b"HDEL", key, field]
    )
    return make_client(server=server)


def test_increments_by_floats_are_propagated_as_their_result(client):
    run(client, "HINCRBYFLOAT", "h", "f", "10.1")
    run(client, "HINCRBYFLOAT", "h", "f", "0.2")
    keeping = b"HSETEX h KEEPTTL FIELDS 1 f "
    assert effects(client)[1] == [keeping + b"10.1", keeping + b"10.3"]
    client.server.compat = compat_with("7.4")
    run(client, "HINCRBYFLOAT", "h", "f", "0.2")
    assert effects(client)[1] == [b"HSET h f 10.5"]


def expiring(client, *fields):
    """A hash whose fields are past their time, the others than `stays` among them."""
    run(client, "HSET", "h", *(word for field in fields for word in (field, 1)))
    run(client, "HPEXPIRE", "h", 10, "FIELDS", len(fields), *fields)
    effects(client)
    client.server.advance(11)


def test_a_replica_hides_what_its_master_has_not_deleted(client):
    expiring(client, "a", "b")
    client.server.keyspace.hides_expired = True
    assert reply(client, "HGET", "h", "a") is None
    assert reply(client, "HMGET", "h", "a", "b") == [None, None]
    assert reply(client, "HGETALL", "h") == []
    assert reply(client, "HLEN", "h") == 2
    assert effects(client) == ([], [], 0)


def test_replayed_commands_see_fields_past_their_time(client):
    expiring(client, "a")
    client.server.keyspace.expiring = False
    assert reply(client, "HINCRBY", "h", "a", 1) == 2


def test_a_walk_over_a_large_hash_meets_all_that_stays(client):
    stay = {b"stay %d" % number for number in range(600)}
    run(client, "HSET", "h", *(word for field in stay for word in (field, 1)))
    found, cursor, turn = set(), 0, 0
    while True:
        cursor, page = reply(client, "HSCAN", "h", cursor, "COUNT", 20, "NOVALUES")
        found.update(page)
        if not int(cursor):
            break
        turn += 1
        run(client, "HSET", "h", f"new {turn}", 1)
        run(client, "HDEL", "h", f"new {turn // 2}")
    assert found >= stay
    assert turn > 20


@pytest.mark.parametrize("count", [1, 5, 60, 99, 100, 200])
def test_random_fields_are_different_and_all_there(client, count):
    run(client, "HSET", "h", *(word for number in range(100) for word in (f"f{number}", "v")))
    found = reply(client, "HRANDFIELD", "h", count)
    assert len(found) == len(set(found)) == min(count, 100)


def test_the_active_cycle_takes_hashes_in_the_order_of_their_times(client):
    from rillet.storage.keyspace.field_expiry import expire_fields, expiring_hashes

    for key, when in (("late", 30), ("early", 10), ("middle", 20)):
        run(client, "HSETEX", key, "PX", when, "FIELDS", 2, "a", 1, "b", 1)
        run(client, "HSET", key, "c", 1)
    run(client, "HSETEX", "never", "PX", 10, "FIELDS", 1, "a", 1)
    run(client, "HPERSIST", "never", "FIELDS", 1, "a")
    effects(client)
    assert expiring_hashes(client.db) == 3
    client.server.advance(21)
    assert expire_fields(client.db, 1) == 1
    assert effects(client) == ([b"hexpired early"], [b"HDEL early a"], 0)
    assert expire_fields(client.db, 100) == 3
    assert effects(client)[1] == [b"HDEL early b", b"HDEL middle a", b"HDEL middle b"]
    assert expire_fields(client.db, 100) == 0
    assert expiring_hashes(client.db) == 1
    client.server.advance(100)
    run(client, "RENAME", "late", "renamed")
    assert expire_fields(client.db, 100) == 2
    assert reply(client, "HKEYS", "renamed") == [b"c"]
    assert not client.db.field_due
