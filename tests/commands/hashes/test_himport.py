"""HIMPORT: fieldsets of a connection, the hashes made of them, their events and propagation."""

from __future__ import annotations


def run(wire, line):
    return wire.call(*line.split()).plain()


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
