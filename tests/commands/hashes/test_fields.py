"""What the scripts of tests/differential do not show of hashes: effects, walks over large ones, random fields."""

import pytest
from support.fake_server import FakeServer, effects, make_client, reply, run

from rillet.commands.hashes import field_expiry as hash_expiry  # noqa: F401 - they declare commands
from rillet.commands.keys import lifecycle as keys  # noqa: F401 - they declare commands
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


def test_a_time_that_is_past_deletes_the_field_and_at_last_the_hash(client):
    run(client, "HSET", "h", "a", 1, "b", 2)
    effects(client)
    assert reply(client, "HPEXPIREAT", "h", 5, "FIELDS", 2, "a", "missing") == [2, -2]
    assert effects(client) == ([b"hdel h"], [b"HDEL h a"], 1)
    assert reply(client, "HEXPIRE", "h", 0, "FIELDS", 1, "b") == [2]
    assert effects(client) == ([b"hdel h", b"del h"], [b"HDEL h b"], 1)
    assert client.server.keyspace.expired_fields == 2


def expiring(client, *fields):
    """A hash whose fields are past their time, the others than `stays` among them."""
    run(client, "HSET", "h", *(word for field in fields for word in (field, 1)))
    run(client, "HPEXPIRE", "h", 10, "FIELDS", len(fields), *fields)
    effects(client)
    client.server.advance(11)


def test_a_field_past_its_time_goes_when_it_is_looked_at(client):
    run(client, "HSET", "h", "stays", 1)
    expiring(client, "a", "b")
    assert reply(client, "HLEN", "h") == 3
    assert reply(client, "HGETALL", "h") == [b"stays", b"1"]
    assert reply(client, "HTTL", "h", "FIELDS", 2, "a", "stays") == [-2, -1]
    assert effects(client) == ([], [], 0)
    assert reply(client, "HGET", "h", "a") is None
    assert effects(client) == ([b"hexpired h"], [b"HDEL h a"], 0)
    assert reply(client, "HLEN", "h") == 2
    assert reply(client, "HMGET", "h", "b", "stays", "b") == [None, b"1", None]
    assert effects(client) == ([b"hexpired h"], [b"HDEL h b"], 0)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("HGET h a", False),
        ("HEXISTS h a", False),
        ("HSTRLEN h a", False),
        ("HMGET h a", False),
        ("HGETDEL h FIELDS 1 a", True),
        ("HGETEX h FIELDS 1 a", True),
        ("HRANDFIELD h", True),
    ],
)
@pytest.mark.parametrize("names_last", [False, True])
def test_the_hash_goes_with_its_last_field_that_expires(client, words, named, names_last):
    client.server.keyspace.names_last_expired = names_last  # as before 8.10
    expiring(client, "a")
    assert reply(client, *words.split()) in (None, 0, [None])
    events = [b"hexpired h", b"del h"] if named or names_last else [b"del h"]
    assert effects(client) == (events, [b"HDEL h a"], 0)
    assert reply(client, "EXISTS", "h") == 0


def test_a_field_past_its_time_that_is_still_there_gets_another_one(client):
    expiring(client, "a", "b")
    assert reply(client, "HPEXPIRE", "h", 5, "NX", "FIELDS", 1, "a") == [0]
    assert effects(client) == ([], [], 0)
    assert reply(client, "HPEXPIRE", "h", 5, "GT", "FIELDS", 1, "a") == [1]
    assert effects(client) == ([b"hexpire h"], [b"HPEXPIREAT h %d GT FIELDS 1 a" % (NOW + 16)], 1)
    assert reply(client, "HPTTL", "h", "FIELDS", 2, "a", "b") == [5, -2]
    assert reply(client, "HPEXPIRE", "h", 0, "FIELDS", 1, "b") == [2]
    assert effects(client) == ([b"hdel h"], [b"HDEL h b"], 1)


@pytest.mark.parametrize(
    ("words", "answer", "events"),
    [
        ("HSETNX h a 7", 1, [b"del h", b"new h", b"hset h"]),
        ("HINCRBY h a 7", 7, [b"del h", b"new h", b"hincrby h"]),
        ("HINCRBYFLOAT h a 7", b"7", [b"del h", b"new h", b"hincrbyfloat h"]),
        ("HSETEX h FNX FIELDS 1 a 7", 1, [b"hexpired h", b"hset h"]),
    ],
)
def test_an_expired_field_starts_from_zero(client, words, answer, events):
    expiring(client, "a")
    assert reply(client, *words.split()) == answer
    assert effects(client)[0] == events
    assert reply(client, "HGET", "h", "a") == b"7"
    assert reply(client, "HTTL", "h", "FIELDS", 1, "a") == [-1]


def test_setting_a_field_ends_its_time_and_counting_keeps_it(client):
    run(client, "HSETEX", "h", "PX", 100, "FIELDS", 2, "a", 1, "b", 1)
    run(client, "HSET", "h", "a", 2)
    run(client, "HINCRBY", "h", "b", 1)
    assert reply(client, "HPTTL", "h", "FIELDS", 2, "a", "b") == [-1, 100]


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


def test_novalues_came_with_7_4(client):
    run(client, "HSET", "h", "a", 1)
    assert reply(client, "HSCAN", "h", 0, "NOVALUES") == [b"0", [b"a"]]
    client.server.compat = compat_with("7.2")
    assert run(client, "HSCAN", "h", 0, "NOVALUES") == b"-ERR syntax error\r\n"


def test_fields_past_their_time_are_not_met_by_walks(client):
    run(client, "HSET", "h", "stays", 1)
    expiring(client, "a")
    assert reply(client, "HSCAN", "h", 0) == [b"0", [b"stays", b"1"]]
    assert reply(client, "HRANDFIELD", "h", 5) == [b"stays"]
    assert effects(client) == ([b"hexpired h"], [b"HDEL h a"], 0)


@pytest.mark.parametrize("count", [1, 5, 60, 99, 100, 200])
def test_random_fields_are_different_and_all_there(client, count):
    run(client, "HSET", "h", *(word for number in range(100) for word in (f"f{number}", f"v{number}")))
    found = reply(client, "HRANDFIELD", "h", count)
    assert len(found) == len(set(found)) == min(count, 100)
    pairs = reply(client, "HRANDFIELD", "h", -count, "WITHVALUES")
    assert len(pairs) == 2 * count
    assert all(content == b"v" + field[1:] for field, content in zip(pairs[::2], pairs[1::2], strict=True))


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
