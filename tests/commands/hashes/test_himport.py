"""HIMPORT: fieldsets of a connection, the hashes made of them, their events and propagation."""

import pytest


def run(wire, line):
    return wire.call(*line.split()).plain()


def test_a_hash_has_its_fields_in_order_whatever_order_they_were_prepared_in(server, wire):
    assert run(wire, "HIMPORT PREPARE f bb a 3 ccc") == b"OK"
    run(wire, "HSET h old 1")
    run(wire, "EXPIRE h 100")
    assert run(wire, "HIMPORT SET h f 1 2 3 4") == b"OK"
    assert run(wire, "HGETALL h") == b"3 3 a 2 bb 1 ccc 4".split()
    assert run(wire, "TTL h") == -1
    assert server.aof()[-4:] == [[b"MULTI"], [b"DEL", b"h"], b"HSET h 3 3 a 2 bb 1 ccc 4".split(), [b"EXEC"]]


def test_fieldsets_belong_to_a_connection_until_it_resets(server, wire):
    run(wire, "HIMPORT PREPARE f a")
    run(wire, "HIMPORT PREPARE g a b")
    run(wire, "HIMPORT PREPARE f b")
    with server.wire() as other:
        assert str(other.call(*b"HIMPORT SET h f 1".split())) == "-ERR no such fieldset"
    run(wire, "SELECT 1")
    assert run(wire, "HIMPORT SET h f 1") == b"OK"
    assert run(wire, "HGETALL h") == [b"b", b"1"]
    assert [run(wire, f"HIMPORT DISCARD {name}") for name in "ffg"] == [1, 0, 1]
    run(wire, "HIMPORT PREPARE f a")
    assert [run(wire, "HIMPORT DISCARDALL") for _ in range(2)] == [1, 0]
    run(wire, "HIMPORT PREPARE f a")
    run(wire, "RESET")
    assert run(wire, "HIMPORT DISCARDALL") == 0


def test_a_script_neither_sees_those_of_its_caller_nor_leaves_its_own(wire):
    run(wire, "HIMPORT PREPARE f a")
    call = "return redis.call('HIMPORT', 'SET', KEYS[1], ARGV[1], '1')"
    assert str(wire.call("EVAL", call, 1, "h", "f")).startswith("-ERR no such fieldset")
    prepare = "redis.call('HIMPORT', 'PREPARE', 'g', 'b') "
    assert wire.call("EVAL", prepare + call, 1, "h", "g").plain() == b"OK"
    assert str(wire.call("EVAL", call, 1, "h", "g")).startswith("-ERR no such fieldset")
    assert run(wire, "HIMPORT SET h f 1") == b"OK"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("HIMPORT", "ERR wrong number of arguments for 'himport' command"),
        ("HIMPORT PREPARE g", "ERR wrong number of arguments for 'himport|prepare' command"),
        ("HIMPORT PREPARE f a b a", "ERR duplicate field name in fieldset"),
        ("HIMPORT SET h f 1", "ERR value count does not match fieldset field count"),
        ("HIMPORT SET h f 1 2 3", "ERR value count does not match fieldset field count"),
        ("HIMPORT SET h none 1 2", "ERR no such fieldset"),
        ("HIMPORT SET s none 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_what_is_refused_changes_nothing(wire, line, error):
    run(wire, "HIMPORT PREPARE f a b")
    run(wire, "SET s x")
    assert str(wire.call(*line.split())) == f"-{error}"
    assert run(wire, "KEYS *") == [b"s"]
    assert run(wire, "HIMPORT SET h f 1 2") == b"OK"
