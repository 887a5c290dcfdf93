"""XINFO CONSUMERS: exact ages, which no script can compare."""

from support.fake_server import reply, run
from support.groups import group_client


def test_consumers_are_listed_by_name_with_their_ages():
    client = group_client(2)
    run(client, "XREADGROUP", "GROUP", "g", "z", "STREAMS", "s", ">")
    client.server.advance(30)
    run(client, "XGROUP", "CREATECONSUMER", "s", "g", "a")
    run(client, "XREADGROUP", "GROUP", "g", "z", "STREAMS", "s", "0")
    client.server.advance(20)
    assert reply(client, "XINFO", "CONSUMERS", "s", "g") == [
        [b"name", b"a", b"pending", 0, b"idle", 20, b"inactive", -1],
        [b"name", b"z", b"pending", 2, b"idle", 20, b"inactive", 50],
    ]
    client.server.advance(-5000)
    assert [info[5::2] for info in reply(client, "XINFO", "CONSUMERS", "s", "g")] == [[0, -1], [0, 0]]
