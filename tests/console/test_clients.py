"""Clients, the slow log and MONITOR: what is shown of them, within bounds and without passwords."""

import asyncio
import contextlib

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from support.programs.console import address_of

from rillet.console import clients as room
from rillet.console.clients import ClientsSubject, Watch, clients, hidden, seen
from rillet.console.connection import Link
from rillet.console.pages import ClientsPage
from rillet.console.poller import Poller
from rillet.console.render import environment


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "line",
    [
        "AUTH s3cret", "auth user s3cret", "HELLO 3 AUTH user s3cret SETNAME x", "ACL SETUSER app on >s3cret ~*",
        "acl setuser app <s3cret", "CONFIG SET requirepass s3cret", "CONFIG SET maxmemory 1 masterauth s3cret",
        "CONFIG SET primaryauth s3cret", "MIGRATE host 6379 key 0 5000 AUTH s3cret",
        "MIGRATE host 6379 key 0 5000 AUTH2 user s3cret", "SENTINEL SET mymaster auth-pass s3cret",
        "SENTINEL CONFIG SET sentinel-pass s3cret", "ACL DRYRUN user AUTH s3cret",
        "acl dryrun user config set requirepass s3cret", "COMMAND GETKEYS MIGRATE host 6379 key 0 5000 AUTH s3cret",
    ],
)  # fmt: skip
def test_a_password_in_a_command_is_hidden(line):
    shown = b" ".join(hidden(line.encode().split()))
    assert b"s3cret" not in shown
    assert shown.startswith(line.encode().split()[0])


def test_a_password_is_hidden_within_thousands_of_commands():
    assert hidden([b"ACL", b"DRYRUN", b"u"] * 9_000 + [b"AUTH", b"s3cret"])[-1] == b"(hidden)"
    assert hidden([b"COMMAND", b"GETKEYS"] * 9_000) == [b"COMMAND", b"GETKEYS"] * 9_000


def test_other_commands_are_shown_as_they_are():
    for words in ([b"SET", b"AUTH", b"x"], [b"GET", b"requirepass"], [b"CONFIG", b"GET", b"requirepass"], []):
        assert hidden(words) == words


@pytest.mark.parametrize(
    ("line", "address", "words"),
    [
        (b'1700000000.123456 [0 127.0.0.1:5] "get" "a b"', "127.0.0.1:5", (b"get", b"a b")),
        (b'1700000000.123456 [3 [::1]:5] "set" "\\xff\\"]\\n" ""', "[::1]:5", (b"set", b'\xff"]\n', b"")),
        (b'1700000000.123456 [0 unix:/a b] "ping"', "unix:/a b", (b"ping",)),
        (b'1700000000.123456 [0 lua] "auth" "s3cret"', "lua", (b"auth", b"(hidden)")),
    ],
)
def test_a_line_of_monitor_is_taken_apart(line, address, words):
    found = seen(1, line)
    assert (found.time, found.address, found.words) == (1_700_000_000_123, address, words)


def test_a_line_of_megabytes_is_cut_and_a_foreign_one_is_left_out():
    long = seen(1, b'1.000000 [0 a:1] "set" "k" "' + b"v" * 3_000_000 + b'"')
    assert (long.words, long.cut) == ((b"set", b"k"), True)
    assert long.line == "set k …"
    assert seen(1, b"OK") is None
    assert seen(1, b"1.000000 [0 a:1] ") is None


def test_a_hostile_client_list_is_text():
    reply = "id=7 addr=1.2.3.4:5 name=<b> user=\u202eevil flags=b cmd=xreadgroup lib-name= tot-mem=x\n\nbroken\n".encode()
    (found,) = clients(reply)
    assert (found.id, found.name, found.user, found.blocked, found.memory) == (
        7, "<b>", "\ufffdevil", True, None,
    )  # fmt: skip


@pytest.mark.parametrize("mark", ["\x1c", "\x0b", "\x85", "\u2028"])
def test_a_name_that_holds_the_end_of_a_line_ends_none(mark):
    reply = f"id=7 user=a{mark}id=x age=y flags=N\nid=8 user=b idle=z\nid=9{mark}9 user=c\n".encode()
    assert [(one.id, one.user, one.age, one.idle) for one in clients(reply)] == [
        (7, "a\ufffdid=x", 0, 0),
        (8, "b", 0, 0),
    ]


async def test_clients_of_a_user_with_a_hostile_name_are_listed(client, link):
    name = "a\u2028id=x".encode()
    client.execute_command("ACL", "SETUSER", name, "on", "nopass", "+@all")
    try:
        with redis.Redis.from_url(address_of(client), client_name="hostile") as hostile:
            hostile.execute_command("AUTH", name, "any")
            found = await ClientsSubject().read(link)
            assert [one.user for one in found.clients if one.name == "hostile"] == ["a\ufffdid=x"]
    finally:
        client.execute_command("ACL", "DELUSER", name)


async def test_clients_that_wait_come_first_with_their_command(client, link):
    async with redis.asyncio.from_url(address_of(client), client_name="worker") as worker:
        waiting = asyncio.ensure_future(worker.blpop(["jobs"], timeout=60))
        found = await ClientsSubject().read(link)
        while not found.clients[0].blocked:
            found = await ClientsSubject().read(link)
        assert (found.clients[0].name, found.clients[0].command) == ("worker", "BLPOP")
        assert "test" in {one.name for one in found.clients}
        assert any(one.own for one in found.clients)
        client.rpush("jobs", "one")
        await waiting


async def table_of_clients(link, find=""):
    """The text of the table that the page shows."""
    context = await ClientsPage({"find": find}).whole_context(Poller(link))
    template = environment().get_template("parts/clients.html")
    return template.render(context, watch=Watch())


async def test_of_many_clients_a_sample_is_looked_at_those_that_wait_first(client, link, monkeypatch):
    monkeypatch.setattr(room, "LISTED", 5)
    port = client.connection_pool.connection_kwargs["port"]
    async with contextlib.AsyncExitStack() as stack:
        for number in range(10):
            idle = redis.asyncio.Redis(port=port, client_name=f"idle{number}")
            await stack.enter_async_context(idle)
            await idle.ping()
        worker = await stack.enter_async_context(redis.asyncio.Redis(port=port, client_name="worker"))
        waiting = asyncio.ensure_future(worker.blpop(["jobs"], timeout=60))
        found = await ClientsSubject().read(link)
        while not found.blocked:
            found = await ClientsSubject().read(link)
        assert found.clients[0].name == "worker"
        assert len(found.clients) == 5
        assert any(one.own for one in found.clients)
        assert found.connected >= 12
        assert f"of {found.connected} clients 5 were looked at" in await table_of_clients(link)
        client.rpush("jobs", "one")
        await waiting


async def test_more_clients_than_a_server_lists_in_a_moment_are_counted_and_not_listed(
    client, link, monkeypatch
):
    assert "A sample" not in await table_of_clients(link)
    monkeypatch.setattr(room, "MOST", 0)
    client.config_resetstat()
    found = await ClientsSubject().read(link)
    assert (found.clients, found.connected > 0, found.blocked) == ((), True, 0)
    assert "client|list" not in "".join(client.info("commandstats")).removeprefix("cmdstat_")
    page = await table_of_clients(link)
    assert "CLIENT LIST has no COUNT" in page
    assert "No client" not in page


async def test_a_refused_list_of_clients_is_said_to_be_refused(client, monkeypatch):
    client.acl_setuser("mute", enabled=True, nopass=True, keys="*", commands=["+@all", "-client|list"])
    async with Link(address_of(client).replace("//", "//mute:x@")) as mute:
        page = await table_of_clients(mute)
    client.acl_deluser("mute")
    assert "The server refused" in page
    assert "has no COUNT" not in page


async def test_the_slow_log_is_bounded_and_has_no_passwords(client, link):
    client.config_set("slowlog-log-slower-than", 0)
    try:
        for _ in range(room.SLOW + 10):
            client.ping()
        client.set_retry(Retry(NoBackoff(), 0))  # by default a wrong password is sent four times
        with pytest.raises(redis.RedisError):
            client.execute_command("AUTH", "no-such-user", "s3cret")
    finally:
        client.config_set("slowlog-log-slower-than", 10_000)
    found = await ClientsSubject().read(link)
    assert len(found.slow) == room.SLOW < found.slow_length
    assert not any("s3cret" in one.line for one in found.slow)


async def test_a_watch_shows_commands_of_others_and_ends_when_asked(client, link):
    watch = Watch()
    await watch.start(link)
    await watch.start(link)  # of another page: the same one
    try:
        while not watch.count:
            client.set("a key", b"\xff")
            await asyncio.sleep(0.01)
        client.set("other", "1")
        await until(lambda: any(one.words[1:2] == (b"other",) for one in watch.commands))
        (address,) = {one.address for one in watch.commands}
        assert watch.by[address] == watch.count
        assert watch.shown("", {address: "test"}, set())[-1].line == 'SET "a key" "\\xff"'
        assert watch.shown("OTHER", {}, set())[0].line == "SET other 1"
        assert watch.shown("test", {}, set())  # by the name that it has remembered
        assert watch.shown("", {}, {address}) == []
        assert watch.last(address) == "SET other 1"
    finally:
        await watch.stop()
    assert (watch.on, watch.why) == (False, "It was ended.")
    assert client.ping()


async def test_a_watch_ends_after_some_commands(client, link, monkeypatch):
    monkeypatch.setattr(room, "WATCH_COMMANDS", 50)
    watch = Watch()
    await watch.start(link)
    while watch.on:
        client.ping()
        await asyncio.sleep(0)
    assert watch.count == 50
    assert "after 50 commands" in watch.why
    async with asyncio.timeout(60):  # until the server hears of the end
        while any("O" in one.flags for one in (await ClientsSubject().read(link)).clients):
            pass


async def test_a_watch_ends_after_its_time(client, link, monkeypatch):
    monkeypatch.setattr(room, "WATCH_SECONDS", 0.05)
    watch = Watch()
    await watch.start(link)
    await until(lambda: not watch.on)
    assert "seconds" in watch.why


async def test_a_watch_ends_at_a_command_of_megabytes(client, link):
    watch = Watch()
    await watch.start(link)
    while not watch.count:
        client.ping()
        await asyncio.sleep(0.01)
    client.set("big", b"v" * 3_000_000)
    await until(lambda: not watch.on)
    assert "at a command of 2 MB" in watch.why
    assert watch.commands[0].words == (b"SET", b"big")


async def test_a_watch_ends_after_some_megabytes(client, link, monkeypatch):
    monkeypatch.setattr(room, "WATCH_BYTES", 1 << 20)
    watch = Watch()
    await watch.start(link)
    while watch.on:
        client.set("some", b"v" * 100_000)
        await asyncio.sleep(0)
    assert "after 1 MB" in watch.why
    assert 10 <= watch.count <= 20


async def test_pages_that_begin_to_watch_at_once_have_one_watch_that_each_can_end(client, link, monkeypatch):
    def monitors():
        return sum("O" in one["flags"] for one in client.client_list())

    watch = Watch()
    with monkeypatch.context() as brief:
        brief.setattr(room, "WATCH_SECONDS", 0.05)
        await watch.start(link)
        await until(lambda: not watch.on)
    await asyncio.gather(watch.start(link), watch.start(link), watch.start(link))
    await until(monitors)
    while not watch.count:
        client.ping()
        await asyncio.sleep(0.01)
    assert monitors() == 1
    await watch.stop()
    await until(lambda: not monitors())


async def test_a_watch_that_is_ended_before_it_began_is_ended(link):
    watch = Watch()
    await watch.start(link)
    await watch.stop()
    assert (watch.on, watch.why) == (False, "It was ended.")


async def test_a_watch_says_why_it_could_not_begin():
    async with Link("redis://127.0.0.1:1") as nowhere:
        watch = Watch()
        await watch.start(nowhere)
        await until(lambda: not watch.on)
        assert "lost" in watch.why
