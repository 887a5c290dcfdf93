"""`Server.reset()`: nothing that a test did to a server reaches the next one."""

import socket

import pytest
import redis
from support.background import aside
from support.until import until

import rillet.testing
from rillet.testing.control import Control

DIRECTIVES = {"requirepass": "secret"}


PATIENT = {
    "socket_timeout": 60,
    "socket_connect_timeout": 60,
}  # seconds; redis-py 8 waits for 5, which a busy machine takes


@pytest.fixture
def client(server):
    with server.client(protocol=3, decode_responses=True, **PATIENT) as client:
        yield client


# What leaked; each piece of state is tested in tests/server/debugging/test_state.py


@pytest.mark.parametrize(
    "rules",
    [["off"], ["resetpass"], ["-@all"], ["-debug"], ["resetpass", ">other"]],
    ids=" ".join,
)
def test_no_rule_of_the_default_user_locks_the_test_out(server, client, rules):
    client.execute_command("ACL", "SETUSER", "default", *rules)
    server.reset()
    assert server.client(**PATIENT).ping()


def test_a_password_that_the_test_set_is_the_first_one_again(server, client):
    client.config_set("requirepass", "another")
    server.reset()
    assert client.config_get("requirepass") == {"requirepass": "secret"}
    assert server.client(**PATIENT).ping()


def test_a_script_that_runs_for_ever_is_killed(server, client):
    client.config_set("busy-reply-threshold", 1)
    looping = aside(server.client(**PATIENT).eval, "while true do end", 0)
    with server.client(**PATIENT) as other:
        until(lambda: is_busy(other))
    server.reset()
    with pytest.raises(redis.RedisError):
        looping.result(60)
    assert client.ping()


def is_busy(client: redis.Redis) -> bool:
    try:
        client.get("k")
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


# Connections


@pytest.fixture
def other(server):
    with redis.Redis(
        port=server.port, password="secret", retry=None, single_connection_client=True
    ) as client:
        yield client


def test_a_consumer_that_was_left_blocked_takes_nothing_of_the_next_test(server, client, other):
    client.xgroup_create("s", "g", mkstream=True)
    waiting = aside(other.xreadgroup, "g", "Bob", {"s": ">"}, block=0)
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    server.reset()
    with pytest.raises(redis.ConnectionError):
        waiting.result(60)
    client.xgroup_create("s", "g", mkstream=True)
    client.xadd("s", {"a": "b"}, id="1-0")
    assert client.xpending("s", "g")["pending"] == 0
    assert client.info("clients")["blocked_clients"] == 0


@pytest.mark.parametrize(
    "words",
    [
        *("MULTI", "MONITOR", "SUBSCRIBE c", "SSUBSCRIBE c", "WATCH k"),
        *("CLIENT REPLY OFF", "CLIENT TRACKING ON BCAST"),
    ],
)
def test_connections_are_closed_whatever_they_do(server, client, other, words):
    other.ping()
    other.connection.send_command(*words.split())
    until(lambda: len(client.client_list()) == 2)
    server.reset()
    with pytest.raises(redis.ConnectionError):
        read_all(other.connection)
    assert len(client.client_list()) == 1
    assert client.pubsub_channels() == client.pubsub_shardchannels() == []
    assert client.info("clients")["tracking_clients"] == 0


def read_all(connection: redis.connection.AbstractConnection) -> None:
    while connection.can_read():  # pushes, and then the end
        connection.read_response()


def test_the_connection_that_resets_stays_with_its_name_and_its_protocol(server, client):
    other = server.client(protocol=3, decode_responses=True, single_connection_client=True)
    other.client_setname("harness")
    number = other.client_id()
    other.execute_command("SELECT", 5)
    other.execute_command("CLIENT", "TRACKING", "ON")
    other.set("k", "v")
    assert other.execute_command("DEBUG", "RESET")
    assert other.client_id() == number
    assert other.client_getname() == "harness"
    assert other.execute_command("CLIENT", "TRACKINGINFO")["flags"] == ["off"]
    assert [line["db"] for line in other.client_list()] == ["0"]
    other.close()


def test_the_control_connection_is_not_seen_and_not_killed(server, client):
    assert len(client.client_list()) == client.info("clients")["connected_clients"] == 1
    client.client_kill_filter(_type="normal", skipme=False)
    server.reset()
    assert client.ping()


def test_a_reset_is_one_command(server, client, monkeypatch):
    client.set("k", "v")
    sent = []
    run_all = Control.run_all
    monkeypatch.setattr(
        Control, "run_all", lambda self, commands: sent.extend(commands) or run_all(self, commands)
    )
    server.reset()
    assert [words[:2] for words in sent] == [(b"DEBUG", b"RESET")]


def test_a_control_connection_that_was_lost_is_made_again(server, client):
    client.set("k", "v")
    server._control._socket.shutdown(socket.SHUT_RDWR)
    server.reset()
    assert client.dbsize() == 0
    server._control.close()
    server.reset()
    assert client.ping()


# Who may


def test_a_reset_is_refused_inside_a_transaction(client):
    with pytest.raises(redis.ResponseError, match="inside a transaction"):
        client.pipeline().set("k", "v").execute_command("DEBUG", "RESET").execute()


def test_without_debug_commands_a_reset_says_so():
    with (
        rillet.testing.Server(enable_debug_command="no") as server,
        pytest.raises(Exception, match="DEBUG command not allowed"),
    ):
        server.reset()


def test_a_server_that_has_ended_says_so(tmp_path):
    server = rillet.testing.Server()
    with pytest.raises(rillet.testing.ControlError, match="not running"):
        server.reset()
    with server:
        server.client().shutdown(nosave=True)
        with pytest.raises(rillet.testing.ControlError):
            server.reset()
        server.restart()
        server.reset()


def test_users_of_a_file_are_those_of_the_start(tmp_path):
    file = tmp_path / "users.acl"
    file.write_text("user default on nopass ~* &* +@all\nuser alice on >pw ~a:* +get\n")
    with rillet.testing.Server(aclfile=file) as server, server.client(decode_responses=True) as client:
        before = client.acl_list()
        client.acl_deluser("alice")
        client.execute_command("ACL", "SETUSER", "bob")
        server.reset()
        assert client.acl_list() == before


def test_clients_ask_for_no_more_than_they_need(server):
    with server.recording() as seen, server.client() as client:
        client.ping()
        assert client.client_list()[-1]["lib-name"] == "redis-py"
    assert not seen.of(command="CLIENT MAINT_NOTIFICATIONS")
