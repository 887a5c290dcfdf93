"""node-redis and ioredis: connect (RESP2 and RESP3), streams and groups, blocking reads, pub/sub, transactions.

node-redis' packages ship no tests, so every method it has is called here in their stead (`node/calls.js`).
"""

import pytest
from support.live import LiveServer
from support.programs.clients import run_node
from support.proxies import proxied
from support.servers import start_server

END = "all as expected\n"


def run_script(name: str, *words: str | int) -> str:
    """What a script printed before the word that it got to its end."""
    done = run_node(name, *words)
    assert (done.returncode, done.stdout[-len(END) :], done.stderr) == (0, END, ""), done.stdout[-1000:]
    return done.stdout[: -len(END)]


@pytest.mark.parametrize("script", ["node-redis.js", "ioredis.js"])
def test_a_client_of_node_gets_what_it_expects(script):
    with LiveServer() as server:
        assert run_script(script, server.port) == ""


@pytest.mark.parametrize("script", ["node-redis.js", "ioredis.js"])
def test_a_client_of_node_gets_what_it_expects_through_a_proxy(script):
    with start_server("redis810") as server, proxied(server.port) as port:
        assert run_script(script, port) == ""


def test_every_method_of_node_redis_gives_what_it_gives_on_redis_server():
    given = {}
    for kind in ("redis7", "rillet-7.0"):
        with start_server(kind) as server:
            given[kind] = run_script("every-call.js", server.port).splitlines()
    with start_server("redis7") as server, proxied(server.port) as port:
        given["behind a proxy"] = run_script("every-call.js", port).splitlines()
    assert len(given["redis7"]) > 1000
    assert given["rillet-7.0"] == given["behind a proxy"] == given["redis7"]


def test_the_methods_that_are_newer_than_redis_7_0_give_what_is_documented():
    with LiveServer() as server:
        assert run_script("every-call.js", server.port, "newer") == ""
