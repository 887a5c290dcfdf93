from support.fake_server import FakeServer, make_client, run

from rillet.server.debugging.digest import keyspace_digest


def test_a_digest_minds_the_order():
    client = make_client(server=FakeServer())
    run(client, "RPUSH", "l", "a", "b")
    before = keyspace_digest(client.server.keyspace)
    run(client, "LMOVE", "l", "l", "LEFT", "RIGHT")
    assert keyspace_digest(client.server.keyspace) != before
