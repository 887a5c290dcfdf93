"""`rillet.testing`: servers in people's tests."""

import asyncio
import socket
import threading

import pytest
import redis

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


def test_a_folder_that_was_given_is_kept(tmp_path):
    with rillet.testing.Server(dir=tmp_path, appendonly=True) as server, server.client() as client:
        client.xadd("s", {"a": "b"})
    assert (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").stat().st_size > 0


def test_a_password_of_any_characters_is_quoted_in_the_url():
    with rillet.testing.Server(requirepass="a b/?#@:%") as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        assert server.client().ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port, password="wrong", retry=None).ping()


def test_a_restart_keeps_the_port_and_what_the_aof_holds(server):
    port = server.port
    with server.client() as client:
        client.xadd("s", {"a": "b"}, id="1-0")
    server.restart()
    assert server.port == port
    with server.client() as client:
        assert client.xlen("s") == 1


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


# The clock


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
