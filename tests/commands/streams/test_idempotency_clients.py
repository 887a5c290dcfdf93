"""redis-py's methods for idempotent messages, on both protocols, through restarts."""

import pytest

import rillet.testing


@pytest.fixture(params=[2, 3])
def protocol(request):
    return request.param


def test_redis_py_adds_a_message_once(protocol):
    with rillet.testing.Server() as server, server.client(protocol=protocol, decode_responses=True) as client:
        first = client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
        assert client.xadd("s", {"other": "v"}, idmp=("p", b"a"), maxlen=1) == first
        auto = client.xadd("s", {"x": "1", "y": "2"}, idmpauto="p")
        assert client.xadd("s", {"y": "2", "x": "1"}, idmpauto="p") == auto
        assert client.xlen("s") == 2
        info = client.xinfo_stream("s")
        assert [info[name] for name in ("idmp-duration", "idmp-maxsize", "pids-tracked")] == [100, 100, 1]
        assert [info[name] for name in ("iids-tracked", "iids-added", "iids-duplicates")] == [2, 2, 2]
        assert client.xcfgset("s", idmp_duration=5, idmp_maxsize=7)
        full = client.xinfo_stream("s", full=True)
        assert [full[name] for name in ("idmp-duration", "idmp-maxsize", "iids-tracked")] == [5, 7, 0]
        assert client.xadd("s", {"f": "v"}, idmp=("p", b"a")) != first


@pytest.mark.parametrize(("rewritten", "preamble"), [(False, "no"), (True, "no"), (True, "yes")])
def test_a_restart_forgets_no_message(protocol, rewritten, preamble):
    with rillet.testing.Server(appendonly="yes", aof_use_rdb_preamble=preamble) as server:
        with server.client(protocol=protocol, decode_responses=True) as client:
            client.xadd("s", {"f": "v"})
            client.xcfgset("s", idmp_duration=300, idmp_maxsize=9)
            first = client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
            client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
            auto = client.xadd("s", {"f": "v"}, idmpauto="q")
            if rewritten:
                client.bgrewriteaof()
                while any(
                    client.info("persistence")[f"aof_rewrite_{state}"]
                    for state in ("in_progress", "scheduled")
                ):
                    pass
        server.restart()
        with server.client(protocol=protocol, decode_responses=True) as client:
            assert client.xadd("s", {"f": "v"}, idmp=("p", b"a")) == first
            assert client.xadd("s", {"f": "v"}, idmpauto="q") == auto
            assert client.xlen("s") == 3
            info = client.xinfo_stream("s")
            assert [info[name] for name in ("idmp-duration", "idmp-maxsize")] == [300, 9]
            assert info["iids-added"] == 2


def test_settings_of_new_streams_follow_the_configuration():
    with rillet.testing.Server() as server, server.client() as client:
        client.xadd("before", {"f": "v"})
        client.config_set("stream-idmp-duration", 7)
        client.config_set("stream-idmp-maxsize", 8)
        client.xadd("after", {"f": "v"})
        settings = [
            (client.xinfo_stream(key)["idmp-duration"], client.xinfo_stream(key)["idmp-maxsize"])
            for key in ("before", "after")
        ]
    assert settings == [(100, 100), (7, 8)]


def test_the_server_forgets_in_time():
    with rillet.testing.Server() as server, server.client() as client:
        client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
        server.clock.advance(seconds=101)
        assert client.xinfo_stream("s")["iids-tracked"] == 0
        assert client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
        assert client.xlen("s") == 2
