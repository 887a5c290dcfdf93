"""Passwords from the environment, a file and a provider: read when a connection is made, and in no option."""

import pickle
import sys

import pytest
from support import servers

from rillet.pipeline.redis.connection import Connection, ServerError
from rillet.pipeline.redis.options import Endpoint, OptionError

SECRET = "from-elsewhere"


@pytest.fixture(scope="module")
def server():
    with servers.start_server("redis7", "--requirepass", SECRET) as server:
        yield server


def endpoint(server, **given):
    return Endpoint.of({"port": str(server.port), "retries": "0"} | given)


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """A function that writes a module with a function `read`, whose body is given."""

    def write(body):
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "secrets_of_ours", raising=False)
        (tmp_path / "secrets_of_ours.py").write_text(f"def read():\n    {body}\n")
        return {"credentialsProvider": "secrets_of_ours:read"}

    return write


def test_the_environment_is_read_at_each_connection(server, monkeypatch):
    found = pickle.loads(pickle.dumps(endpoint(server, passwordEnv="ORDERS_PASSWORD")))
    with pytest.raises(OptionError, match="no environment variable ORDERS_PASSWORD"):
        Connection(found).call("PING")
    monkeypatch.setenv("ORDERS_PASSWORD", SECRET)
    assert SECRET.encode() not in pickle.dumps(found)
    with Connection(found) as connection:
        assert connection.call("PING") == b"PONG"
        monkeypatch.setenv("ORDERS_PASSWORD", "changed")
        assert connection.call("PING") == b"PONG"
        connection.close()
        with pytest.raises(ServerError, match="WRONGPASS"):
            connection.call("PING")


def test_a_file_may_end_with_a_newline(server, tmp_path):
    path = tmp_path / "password"
    given = {"username": "default", "passwordFile": str(path)}
    with pytest.raises(OptionError, match=r"option 'passwordFile': .*No such file"):
        Connection(endpoint(server, **given)).call("PING")
    path.write_text(f"{SECRET}\n")
    with Connection(endpoint(server, **given)) as connection:
        assert connection.call("PING") == b"PONG"


@pytest.mark.parametrize(
    "body", [f"return {SECRET!r}", f"return 'default', {SECRET!r}", f"return None, {SECRET!r}"]
)
def test_a_provider_returns_a_password_or_a_user_as_well(server, provider, body):
    with Connection(endpoint(server, **provider(body))) as connection:
        assert connection.call("PING") == b"PONG"


@pytest.mark.parametrize("body", ["return 5", "return 'a', 'b', 'c'", "raise ValueError('locked')"])
def test_a_provider_that_has_none_is_named(server, provider, body):
    with pytest.raises(OptionError, match=r"'credentialsProvider' 'secrets_of_ours:read'"):
        Connection(endpoint(server, **provider(body))).call("PING")


def test_there_is_one_way_to_say_it():
    with pytest.raises(OptionError, match="options 'passwordEnv' and 'password' exclude each other"):
        Endpoint.of({"password": "a", "passwordEnv": "B"})
    with pytest.raises(
        OptionError, match="options 'url' and 'passwordFile' exclude each other: the url has a password"
    ):
        Endpoint.of({"url": "redis://:a@b", "passwordFile": "/c"})
    with pytest.raises(OptionError, match="takes package"):
        Endpoint.of({"credentialsProvider": "package.module"})
