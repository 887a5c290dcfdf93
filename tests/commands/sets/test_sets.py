"""What of sets is newer than the real servers that tests can ask; walks and choices by chance, of sorted sets, too."""

import pytest
from support.fake_server import FakeServer, make_client, run


@pytest.fixture
def client():
    return make_client(server=FakeServer(lazyfree_lazy_server_del=False, hll_sparse_max_bytes=3000))


def test_the_union_may_be_estimated(client):
    run(client, "SADD", "a", *range(3000))
    run(client, "SADD", "b", *range(1000, 5000))
    reply = run(client, "SUNIONCARD", 2, "a", "b", "APPROX")
    assert 4850 < int(reply[1:]) < 5150
    run(client, "PFADD", "h", *range(5000))
    assert run(client, "PFCOUNT", "h") == reply
    assert run(client, "SUNIONCARD", 2, "a", "b", "LIMIT", 7, "APPROX") == b":7\r\n"
    assert run(client, "SUNIONCARD", 2, "a", "b", "APPROX", "LIMIT", 0) == reply


def test_spop_is_propagated_as_what_it_removes(client):
    run(client, "SADD", "s", *range(5000))
    client.server.propagation.take()
    run(client, "SPOP", "s", 2500)
    effects = client.server.propagation.take()
    assert [(words[:2], len(words)) for words in effects] == [
        ([b"SREM", b"s"], 1026),
        ([b"SREM", b"s"], 1026),
        ([b"SREM", b"s"], 454),
    ]
    gone = {member for words in effects for member in words[2:]}
    assert len(gone) == 2500
    assert gone.isdisjoint(client.db.entries[b"s"].members)
    member = run(client, "SPOP", "s").split(b"\r\n")[1]
    assert client.server.propagation.take() == [[b"SREM", b"s", member]]
    run(client, "SPOP", "s", 9999)
    assert client.server.propagation.take() == [[b"DEL", b"s"]]
    assert not client.db.entries


def test_large_forms_are_walked_to_their_end(client):
    run(client, "SADD", "s", *(f"m{number}" for number in range(1000)))
    run(client, "ZADD", "z", *(word for number in range(1000) for word in (number, f"m{number}")))
    for command, step in (("SSCAN", 1), ("ZSCAN", 2)):
        name = "s" if step == 1 else "z"
        cursor, found = b"0", []
        while True:
            _, _, cursor, _, *rest = run(client, command, name, cursor, "COUNT", 64).split(b"\r\n")
            found += rest[1::2][::step]
            if cursor == b"0":
                break
        assert sorted(found) == sorted(b"m%d" % number for number in range(1000))


def test_what_is_asked_for_by_chance_is_what_there_is(client):
    run(client, "SADD", "s", "a", "b")
    run(client, "ZADD", "z", 1, "a", 2, "b")
    for name, key in (("SRANDMEMBER", "s"), ("ZRANDMEMBER", "z")):
        assert {run(client, name, key) for _ in range(60)} == {b"$1\r\na\r\n", b"$1\r\nb\r\n"}
        many = run(client, name, key, -50)
        assert many.startswith(b"*50\r\n")
        assert set(many.split(b"\r\n")[2::2]) == {b"a", b"b"}
        assert run(client, name, key, 1)[:4] == b"*1\r\n"
