"""Idempotent messages by redis-py, through restarts and in time."""

import pytest

import rillet.testing


@pytest.mark.parametrize(("rewritten", "preamble"), [(False, "no"), (True, "no"), (True, "yes")])
def test_a_restart_forgets_no_message(rewritten, preamble):
    with rillet.testing.Server(appendonly="yes", aof_use_rdb_preamble=preamble) as server:
        with server.client(decode_responses=True) as client:
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
        with server.client(decode_responses=True) as client:
            assert client.xadd("s", {"f": "v"}, idmp=("p", b"a")) == first
            assert client.xadd("s", {"f": "v"}, idmpauto="q") == auto
            assert client.xlen("s") == 3
            info = client.xinfo_stream("s")
            assert [info[name] for name in ("idmp-duration", "idmp-maxsize")] == [300, 9]
            assert info["iids-added"] == 2


def test_the_server_forgets_in_time():
    with rillet.testing.Server() as server, server.client() as client:
        client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
        server.clock.advance(seconds=101)
        assert client.xinfo_stream("s")["iids-tracked"] == 0
        assert client.xadd("s", {"f": "v"}, idmp=("p", b"a"))
        assert client.xlen("s") == 2
