"""`rillet.testing`: servers in people's tests."""

import asyncio
import socket
import threading
import time
from pathlib import Path

import pytest
import redis
from support.background import aside

import rillet.testing
from rillet.testing.control import Control


def is_listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def server(request):
    with rillet.testing.Server(process=request.param, appendonly=True) as server:
        yield server


def test_a_server_replies_and_is_gone_after_the_block(server):
    with server.client() as client:
        assert client.ping()
    port = server.port
    server.stop()
    assert not is_listening(port)
    assert not server.running


def test_several_servers_live_side_by_side_and_share_nothing():
    with rillet.testing.Server() as one, rillet.testing.Server() as two:
        assert one.port != two.port
        with one.client() as client, two.client() as other:
            client.set("k", "one")
            assert other.get("k") is None


def test_the_temporary_folder_is_removed(server):
    folder = Path(server.client().config_get("dir")["dir"])
    assert (folder / "appendonlydir").is_dir()
    server.stop()
    assert not folder.exists()


def test_a_folder_that_was_given_is_kept(tmp_path):
    with rillet.testing.Server(dir=tmp_path, appendonly=True) as server, server.client() as client:
        client.xadd("s", {"a": "b"})
    assert (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").stat().st_size > 0


def test_directives_become_flags():
    with rillet.testing.Server(notify_keyspace_events="KEA", stream_node_max_entries=10) as server:
        config = server.client().config_get("*")
    assert config["notify-keyspace-events"] == "AKE"
    assert config["stream-node-max-entries"] == "10"


def test_a_password_is_part_of_the_url():
    with rillet.testing.Server(requirepass="secret") as server, server.client() as client:
        assert client.ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port, password="wrong", retry=None).ping()
        server.reset()
        assert client.ping()


def test_a_password_of_any_characters_is_quoted_in_the_url():
    with rillet.testing.Server(requirepass="a b/?#@:%") as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        assert server.client().ping()


def test_a_restart_keeps_the_port_and_what_the_aof_holds(server):
    port = server.port
    with server.client() as client:
        client.xadd("s", {"a": "b"}, id="1-0")
    server.restart()
    assert server.port == port
    with server.client() as client:
        assert client.xlen("s") == 1


def test_shutdown_by_a_client_does_not_confuse_stop(server):
    with server.client() as client:
        client.shutdown(nosave=True)
    server.stop()
    assert not server.running


class LateNews:
    """Forwards one connection; the client hears of the end of the server only when it next sends something."""

    def __init__(self, port):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._target = "127.0.0.1", port
        self._thread = threading.Thread(target=self._forward, daemon=True)

    def _forward(self):
        with self._listener.accept()[0] as client, socket.create_connection(self._target) as server:
            while data := client.recv(65536):
                try:
                    server.sendall(data)
                    reply = server.recv(65536)
                except ConnectionError:
                    return
                if not reply:
                    return
                client.sendall(reply)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(30)
        self._listener.close()


def test_a_server_that_was_shut_down_is_not_running_even_if_its_control_connection_still_stands(server):
    server._release_control()
    with LateNews(server.port) as late:
        server._control = Control(server.host, late.port, None)
        with server.client() as client:
            client.set("k", "v")
            client.shutdown(nosave=True)
        assert not server.running
        server.start()
        server.reset()
        with server.client() as client:
            assert client.dbsize() == 0


def test_reset_makes_it_as_good_as_new(server):
    with server.client() as client:
        client.set("k", "v")
        client.config_set("stream-node-max-entries", 7)
        server.clock.freeze(at=1_000)
        server.reset()
        assert client.dbsize() == 0
        assert client.config_get("stream-node-max-entries")["stream-node-max-entries"] == "100"
        assert abs(client.time()[0] - time.time()) < 60


@pytest.mark.parametrize("words", [("SET-ACTIVE-EXPIRE", 0), ("PAUSE-CRON", 1)])
def test_keys_expire_by_themselves_again_after_a_reset(server, words):
    with server.client() as client:
        client.execute_command("DEBUG", *words)
        server.reset()
        client.set("k", "v", px=1)
        until = time.monotonic() + 60
        while client.dbsize():
            assert time.monotonic() < until
            time.sleep(0.01)


# The clock


def test_the_hour_of_the_documented_example_passes_in_a_moment(server):
    with server.client() as client:
        client.xadd("s", {"a": "b"}, id="1-0")
        client.xgroup_create("s", "g", "0")
        client.xreadgroup("g", "Bob", {"s": ">"})
        assert client.xclaim("s", "g", "Alice", 3_600_000, ["1-0"]) == []
        server.clock.advance(hours=1)
        assert client.xclaim("s", "g", "Alice", 3_600_000, ["1-0"]) == [(b"1-0", {b"a": b"b"})]


def test_keys_expire_when_the_clock_is_moved(server):
    with server.client() as client, server.client() as listener:
        client.config_set("notify-keyspace-events", "Ex")
        events = listener.pubsub(ignore_subscribe_messages=True)
        events.subscribe("__keyevent@0__:expired")
        events.get_message(timeout=60)
        client.set("k", "v", ex=3600)
        server.clock.advance(minutes=59)
        assert client.exists("k")
        server.clock.advance(minutes=2)
        message = events.get_message(timeout=60)
        assert message["data"] == b"k"  # without anybody asking for the key
        events.close()


def test_a_blocked_reader_times_out_by_the_servers_clock(server):
    with server.client(socket_timeout=None) as client, server.client() as other:
        reading = aside(client.xread, {"s": "$"}, block=3_600_000)
        while other.info("clients")["blocked_clients"] == 0:
            time.sleep(0.01)
        server.clock.advance(hours=2)
        assert reading.result(30) in ([], {})


def test_auto_ids_and_time_follow_the_clock(server):
    with server.client() as client:
        server.clock.freeze(at=1_526_569_495_631)
        assert client.xadd("s", {"a": "b"}) == b"1526569495631-0"
        assert client.xadd("s", {"a": "b"}) == b"1526569495631-1"
        server.clock.advance(seconds=1.5)
        assert client.xadd("s", {"a": "b"}) == b"1526569497131-0"
        assert client.time() == (1_526_569_497, 131_000)
        assert server.clock.now == 1_526_569_497_131
        server.clock.resume()
        assert server.clock.now >= 1_526_569_497_131


def test_a_restart_in_a_thread_keeps_the_clock():
    with rillet.testing.Server(appendonly=True) as server:
        server.clock.freeze(at=5_000)
        server.restart()
        assert server.clock.now == 5_000


# asyncio


async def test_the_asynchronous_twin():
    async with rillet.testing.AsyncServer() as server, server.client() as client:
        await client.xadd("s", {"a": "b"}, id="1-0")
        waiting = asyncio.ensure_future(client.xread({"s": "1-0"}, block=5000))
        async with server.client() as other:
            while (await other.info("clients"))["blocked_clients"] == 0:
                await asyncio.sleep(0.01)
            await other.xadd("s", {"c": "d"}, id="2-0")
        assert await waiting


# The fixtures


def test_importing_the_plugin_loads_nothing_of_the_server():
    import subprocess
    import sys

    code = "import sys, rillet.pytest_plugin as p; print([m for m in sys.modules if m.startswith(('rillet.', 'redis', 'uvloop', 'hiredis'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['rillet.pytest_plugin']"


def test_a_control_connection_that_was_interrupted_is_not_used_again(server, monkeypatch):
    def interrupt(control: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rillet.testing.control.Control._read", interrupt)
        with pytest.raises(KeyboardInterrupt):
            server.reset()
    assert server.streams() == []  # not the reply to the reset
