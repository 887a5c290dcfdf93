"""What sorted sets did in older versions."""

import pytest
from support.fake_server import FakeServer, make_client, run

from rillet.commands.spec.versions import compat_with
from rillet.server.families import load_all

load_all()


@pytest.fixture
def client():
    return make_client(server=FakeServer(lazyfree_lazy_server_del=False))


def test_count_is_no_aggregate_of_older_versions(client):
    client.server.compat = compat_with("8.6")
    assert run(client, "ZUNION", 1, "z", "AGGREGATE", "COUNT") == b"-ERR syntax error\r\n"


def test_scores_are_spelled_as_the_version_spells_them(client):
    run(client, "ZADD", "z", "0.1", "a")
    assert run(client, "ZSCORE", "z", "a") == b"$3\r\n0.1\r\n"
    client.server.compat = compat_with("7.0")
    assert run(client, "ZSCORE", "z", "a") == b"$19\r\n0.10000000000000001\r\n"
    assert (
        run(client, "ZRANK", "z", "a", "WITHSCORE")
        == b"-ERR wrong number of arguments for 'zrank' command\r\n"
    )
