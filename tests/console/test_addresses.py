"""The addresses that a console is given: TLS, a unix socket, a user of the ACL, a database."""

from contextlib import ExitStack
from urllib.parse import quote, urlencode

import pytest
import redis
from support import servers
from support.deployments.real_cluster import ClusterNodeProcess
from support.deployments.sentinels import RedisProcess
from support.programs.console import ConsoleProcess
from support.tls import connect, flags, make_certificates
from support.until import until

from rillet.console.connection import GoneError, Link
from rillet.console.poller import Poller
from rillet.console.prompt import Prompt

KINDS = ("rillet", "redis7", "valkey")


async def streams_at(url):
    """Return the streams that a round finds, and what the prompt's own connection says of them."""
    async with Link(url) as link:
        poller, prompt = Poller(link), Prompt(link)
        try:
            await poller.round()
            reply = await prompt.run("one", "XLEN orders", read_only=True, sure=False)
        finally:
            await prompt.close()
        return list(poller.overview.streams), reply.text


FOUND = ([b"orders"], "(integer) 1")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_unix_socket_is_read(kind, tmp_path):
    socket = tmp_path / "server.sock"
    with servers.start_server(kind, "--unixsocket", str(socket)):
        with redis.Redis(unix_socket_path=str(socket)) as client:
            client.xadd("orders", {"a": 1})
        assert await streams_at(f"unix://{socket}") == FOUND


@pytest.mark.parametrize("kind", KINDS)
async def test_another_database_is_read(kind, running):
    with redis.Redis(port=running(kind).port, db=3) as other:
        other.flushall()
        other.xadd("orders", {"a": 1})
        address = f"redis://127.0.0.1:{running(kind).port}"
        assert await streams_at(f"{address}/3") == FOUND
        assert await streams_at(address) == ([], "(integer) 0")
        other.flushall()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_user_of_the_acl_logs_in_with_a_password_of_any_characters(kind):
    password = "p@ss/w:rd?#% é"
    with servers.start_server(kind) as server:
        with redis.Redis(port=server.port) as client:
            client.xadd("orders", {"a": 1})
            client.execute_command("ACL", "SETUSER", "looker", "on", f">{password}", "~*", "+@all")
            client.execute_command("ACL", "SETUSER", "default", "off")
        where = f"127.0.0.1:{server.port}"
        assert await streams_at(f"redis://looker:{quote(password, safe='')}@{where}") == FOUND
        with pytest.raises(GoneError) as raised:
            await streams_at(f"redis://looker:wrong-one@{where}")
        assert "wrong-one" not in str(raised.value)


@pytest.mark.parametrize("kind", ["rillet", "redis7"])  # the Valkey of the tests is built without TLS
async def test_tls_with_a_certificate_of_ones_own_is_read_and_a_stranger_is_not(kind, tmp_path):
    folder = make_certificates(tmp_path)
    port = servers.free_port()
    with servers.start_server(kind, *flags(folder, tls_port=port)):
        with connect(port, folder) as client:
            client.xadd("orders", {"a": 1})
        trust = f"ssl_ca_certs={folder}/ca.crt&ssl_check_hostname=false"
        shown = f"ssl_certfile={folder}/client.crt&ssl_keyfile={folder}/client.key"
        assert await streams_at(f"rediss://127.0.0.1:{port}?{trust}&{shown}") == FOUND
        for query in (shown, trust):  # the server's authority is not trusted; the client shows no certificate
            with pytest.raises(GoneError):
                await streams_at(f"rediss://127.0.0.1:{port}?{query}")


TRUST = (
    "ssl_ca_certs={0}/ca.crt&ssl_check_hostname=false&ssl_certfile={0}/client.crt&ssl_keyfile={0}/client.key"
)


@pytest.mark.parametrize("kind", ["rillet", "redis7"])
async def test_sentinels_and_their_master_are_read_over_tls(kind, tmp_path):
    folder = make_certificates(tmp_path)
    master, watching = servers.free_port(), servers.free_port()
    both = ("--tls-replication", "yes")
    with (
        servers.start_server(kind, *flags(folder, tls_port=master)),
        connect(master, folder) as client,
    ):
        client.xadd("orders", {"a": 1})
        settings = tmp_path / "sentinel.conf"
        settings.write_text(f"sentinel monitor mymaster 127.0.0.1 {master} 1\n")
        sentinel = RedisProcess(
            "redis7", tmp_path, [*flags(folder, tls_port=watching), *both], [str(settings)]
        )
        sentinel.start("--sentinel")
        try:
            address = f"rediss+sentinel://127.0.0.1:{watching}/mymaster"
            assert await streams_at(f"{address}?{TRUST.format(folder)}") == FOUND
            with pytest.raises(GoneError):  # the authority is not trusted
                await streams_at(address)
        finally:
            sentinel.stop()


async def test_a_sentinel_that_is_down_is_asked_once(monkeypatch):
    monkeypatch.setattr("redis.asyncio.retry.sleep", None)  # a second try is made after a pause
    async with Link("redis+sentinel://127.0.0.1:1/mymaster") as link:
        with pytest.raises(GoneError):
            await Poller(link).round()


async def test_all_masters_of_a_cluster_are_read_over_tls(tmp_path):  # a cluster of Rillet has no TLS
    folder = make_certificates(tmp_path)
    ports = [servers.free_port() for _ in range(2)]
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                ClusterNodeProcess("redis7", *flags(folder, tls_port=port, tls_cluster="yes"))
            )
            for port in ports
        ]
        for node, (first, last) in zip(nodes, ((0, 8191), (8192, 16383)), strict=True):
            with node.wire() as wire:
                wire.call("CLUSTER", "ADDSLOTSRANGE", first, last)
        with nodes[0].wire() as wire:
            bus = nodes[1].flags[nodes[1].flags.index("--cluster-port") + 1]
            wire.call("CLUSTER", "MEET", "127.0.0.1", ports[1], bus)
        for node in nodes:
            with node.wire() as wire:
                until(lambda wire=wire: b"cluster_state:ok" in wire.call("CLUSTER", "INFO").value)
        pair = {"ssl_certfile": f"{folder}/client.crt", "ssl_keyfile": f"{folder}/client.key"}
        trust = {"ssl": True, "ssl_ca_certs": f"{folder}/ca.crt", "ssl_check_hostname": False}
        with redis.cluster.RedisCluster("127.0.0.1", ports[0], **trust, **pair) as client:
            for key in ("orders", "payments", "a", "b", "c"):
                client.xadd(key, {"a": 1})
        found, _ = await streams_at(f"rediss+cluster://127.0.0.1:{ports[0]}?{TRUST.format(folder)}")
        assert sorted(found) == [b"a", b"b", b"c", b"orders", b"payments"]
        with pytest.raises(GoneError):
            await streams_at(f"rediss+cluster://127.0.0.1:{ports[0]}")


def test_twenty_thousand_entries_can_be_chosen_one_by_one(running):
    with redis.Redis(port=running("rillet").port) as client:
        client.delete("orders")
        client.xgroup_create("orders", "g", "0", mkstream=True)
        chosen = [f"{n + 1_700_000_000_000}-0" for n in range(20_000)]
        client.xadd("orders", {"a": 1}, id=chosen[-1])
        client.xreadgroup("g", "alice", {"orders": ">"})
    with ConsoleProcess(f"redis://127.0.0.1:{running('rillet').port}", "--allow-writes") as console:
        words = urlencode({"key": "orders", "group": "g", "id": " ".join(chosen)})
        answer = console.ask(f"/act/ack?{words}")
        assert answer.status == 200
        assert chosen[-1] in answer.text
