"""HIMPORT in the append-only file; scripts/newest/himport.script has the rest."""


def test_it_is_propagated_as_the_fields_in_their_order(server, wire):
    wire.call("HSET", "h", "old", "1")
    wire.call(*b"HIMPORT PREPARE f bb a 3 ccc".split())
    assert wire.call(*b"HIMPORT SET h f 1 2 3 4".split()).plain() == b"OK"
    assert server.aof()[-4:] == [[b"MULTI"], [b"DEL", b"h"], b"HSET h 3 3 a 2 bb 1 ccc 4".split(), [b"EXEC"]]
