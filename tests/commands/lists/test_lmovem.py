"""LMOVEM and BLMOVEM: order, count, blocking, events and propagation."""

import pytest
from support.servers import start_server


def run(wire, line):
    return wire.call(*line.split()).plain()


def elements(wire, key):
    return b" ".join(run(wire, f"LRANGE {key} 0 -1")).decode()


@pytest.mark.parametrize(
    ("sides", "one_by_one", "in_bulk"),
    [
        ("LEFT LEFT", "b a x y", "a b x y"),
        ("LEFT RIGHT", "x y a b", "x y a b"),
        ("RIGHT LEFT", "c d x y", "c d x y"),
        ("RIGHT RIGHT", "x y d c", "x y c d"),
    ],
)
def test_elements_arrive_one_by_one_or_in_their_old_order(wire, sides, one_by_one, in_bulk):
    for order, expected in (("OBO", one_by_one), ("bulk", in_bulk)):
        run(wire, "DEL l m")
        run(wire, "RPUSH l a b c d")
        run(wire, "RPUSH m x y")
        moved = run(wire, f"LMOVEM l m {sides} COUNT 2 {order}")
        assert elements(wire, "m") == expected
        assert b" ".join(moved).decode() == expected.replace("x y", "").strip()


def test_a_batch_of_one_list_is_taken_before_it_is_put_back(wire):
    run(wire, "RPUSH l a b c d")
    assert run(wire, "LMOVEM l l LEFT LEFT COUNT 2 OBO") == [b"b", b"a"]
    assert elements(wire, "l") == "b a c d"
    assert run(wire, "LMOVEM l l LEFT RIGHT EXACTLY 4 BULK") == [b"b", b"a", b"c", b"d"]
    run(wire, "EXPIRE l 100")
    assert run(wire, "LMOVEM l l RIGHT LEFT COUNT 9 BULK") == [b"b", b"a", b"c", b"d"]
    assert 0 < run(wire, "TTL l") <= 100


def test_too_few_elements_stay_where_they_are(wire):
    run(wire, "RPUSH l a b")
    assert run(wire, "LMOVEM l m LEFT RIGHT EXACTLY 3 BULK") is None
    assert run(wire, "LMOVEM none m LEFT RIGHT") is None
    assert run(wire, "EXISTS m") == 0
    assert run(wire, "LMOVEM l m LEFT RIGHT COUNT 3 BULK") == [b"a", b"b"]
    assert run(wire, "EXISTS l") == 0
    assert str(wire.call("MULTI")) == "+OK"
    run(wire, "BLMOVEM none m LEFT RIGHT 0 EXACTLY 2 OBO")
    assert str(wire.call("EXEC")) == "*[null*]"


@pytest.mark.parametrize(
    "growing", ["RPUSH l c", "LINSERT l AFTER b c", "LMOVE feed l LEFT RIGHT", "SORT more STORE l ALPHA"]
)
def test_exactly_waits_until_a_list_has_grown(server, wire, growing):
    run(wire, "RPUSH l a b")
    run(wire, "RPUSH feed c")
    run(wire, "RPUSH more a b c")
    with server.wire() as waiting:
        waiting.send(*b"BLMOVEM l m LEFT RIGHT 0 EXACTLY 3 BULK".split())
        server.wait_for_blocked(1)
        run(wire, "LSET l 0 a")
        server.wait_for_blocked(1)
        run(wire, growing)
        assert waiting.read().plain() == [b"a", b"b", b"c"]
    assert elements(wire, "m") == "a b c"


def test_count_waits_for_the_first_element_and_gives_up_in_time(server, wire):
    with server.wire() as waiting:
        waiting.send(*b"BLMOVEM l m LEFT RIGHT 0 COUNT 5 BULK".split())
        server.wait_for_blocked(1)
        run(wire, "RPUSH l a b")
        assert waiting.read().plain() == [b"a", b"b"]
    assert run(wire, "BLMOVEM l m LEFT RIGHT 0.001 EXACTLY 3 BULK") is None
    assert server.aof()[-1] == b"LMOVEM l m LEFT RIGHT EXACTLY 2 BULK".split()


def test_the_file_is_loaded_and_an_old_replica_holds_the_same(tmp_path):
    with start_server("rillet", "--appendonly", "yes", "--repl-diskless-sync-delay", 0) as master:
        with start_server("redis7") as replica, master.wire() as wire, replica.wire() as other:
            other.call("REPLICAOF", "127.0.0.1", master.port)
            while b"master_link_status:up" not in other.call("INFO", "replication").value:
                pass
            run(wire, "RPUSH l a b c d e")
            run(wire, "EXPIREAT l 33177117420")
            for line in (
                "LMOVEM l m LEFT LEFT COUNT 2 OBO",
                "BLMOVEM l m RIGHT LEFT 0 EXACTLY 1 BULK",
                "LMOVEM l l LEFT RIGHT COUNT 9 BULK",
                "LMOVEM m m RIGHT LEFT",
            ):
                run(wire, line)
                assert wire.call("WAIT", 1, 5000).plain() == 1
                looks = [
                    (elements(each, "l"), elements(each, "m"), run(each, "EXPIRETIME l"))
                    for each in (wire, other)
                ]
                assert looks[0] == looks[1], line
        master.stop()
        master.start()
        with master.wire() as wire:
            assert (elements(wire, "l"), elements(wire, "m"), run(wire, "EXPIRETIME l")) == looks[0]
