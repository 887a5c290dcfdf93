"""The prompt on real servers: what is sent, what is asked back, what read-only refuses by the flags of COMMAND."""

import asyncio
import contextlib
import hashlib

import pytest
import redis
from support import servers
from support.programs.console import address_of

from rillet.console import prompt as room
from rillet.console.app import Console
from rillet.console.connection import Link
from rillet.console.poller import Poller
from rillet.console.prompt import Prompt, rule_of
from rillet.console.security import Guard


@contextlib.asynccontextmanager
async def prompt_at(address):
    async with Link(address) as link:
        made = Prompt(link)
        yield made
        await made.close()


@pytest.fixture
async def prompt(client):
    async with prompt_at(address_of(client)) as made:
        yield made


async def ask(prompt, line, *, read_only=False, sure=False, session="one"):
    exchange = await prompt.run(session, line, read_only=read_only)
    if sure and exchange.kind == "asked":
        return await prompt.run(session, "", read_only=read_only, sure=exchange.nonce)
    return exchange


async def test_a_line_is_sent_and_its_reply_has_its_types(prompt, client):
    assert (await ask(prompt, 'SET "a key" "\\xff"')).text == "OK"
    assert client.get("a key") == b"\xff"
    assert (await ask(prompt, "GET 'a key'")).text == '"\\xff"'
    assert (await ask(prompt, "HSET h f v")).text == "(integer) 1"
    assert (await ask(prompt, "HGETALL h")).text == '1# "f" => "v"'
    assert (await ask(prompt, "ZADD z 1.5 a")).changes
    assert "(double) 1.5" in (await ask(prompt, "ZSCORE z a")).text
    assert (await ask(prompt, "GET h")).kind == "error"


async def test_a_command_that_the_server_does_not_know_is_asked_back(prompt):
    asked = await ask(prompt, "NOPE a")
    assert (asked.kind, asked.text) == ("asked", "This server does not know NOPE.")
    assert "unknown command" in (await ask(prompt, "NOPE a", sure=True)).text
    assert "does not know NOPE, and" in (await ask(prompt, "NOPE a", read_only=True)).text


async def test_what_the_server_does_not_say_of_a_command_is_refused_or_asked_back(link, client):
    client.acl_setuser("mute", enabled=True, nopass=True, keys="*", commands=["+@all", "-command"])
    async with prompt_at(address_of(client).replace("//", "//mute:x@")) as prompt:
        for line in ("FLUSHALL", "SET a 1", "GET a", "CONFIG SET hz 10"):
            asked = await ask(prompt, line)
            assert asked.kind == "asked"
            assert "NOPERM" in asked.text or "no permissions" in asked.text
            refused = await ask(prompt, line, read_only=True, sure=True)
            assert refused.kind == "refused"
            assert "does not know" not in refused.text
        assert (await ask(prompt, "SET a 1", sure=True)).text == "OK"
        assert (await ask(prompt, "CLIENT REPLY OFF", sure=True)).kind == "refused"


@pytest.mark.parametrize(
    "name", ["EVAL_RO 'return 1' 0", "EVALSHA_RO x 0", "FCALL_RO f 0", "EVAL 'return 1' 0"]
)
async def test_scripts_are_refused_in_read_only_and_asked_back_else(prompt, name):
    assert (await ask(prompt, name, read_only=True, sure=True)).kind == "refused"
    asked = await ask(prompt, name)
    assert asked.kind == "asked"
    assert "script" in asked.text


async def test_a_busy_server_is_not_taken_for_one_that_does_not_know_the_command():
    with (
        servers.start_server("redis7", "--busy-reply-threshold", "1") as server,
        redis.Redis(port=server.port) as busy,
        redis.Redis(port=server.port) as other,
    ):
        async with prompt_at(f"redis://127.0.0.1:{server.port}") as prompt:
            await ask(prompt, "PING")
            running = asyncio.get_running_loop().run_in_executor(None, _endless, busy)
            while not await asyncio.to_thread(_is_busy, other):
                await asyncio.sleep(0.01)
            asked = await ask(prompt, "SCRIPT KILL")
            assert asked.kind == "asked"
            assert "BUSY" in asked.text
            assert (await ask(prompt, "SCRIPT KILL", sure=True)).text == "OK"
            assert "killed" in await running


def _endless(client):
    try:
        client.eval("while true do end", 0)
    except redis.ResponseError as error:
        return str(error)


def _is_busy(client):
    try:
        return not client.ping()
    except redis.ResponseError:
        return True


async def test_a_session_keeps_its_transaction_and_its_database_apart_from_others(prompt, client):
    await ask(prompt, "SELECT 3")
    assert (await ask(prompt, "MULTI")).text == "OK"
    assert (await ask(prompt, "SET a 1")).text == "QUEUED"
    assert (await ask(prompt, "GET a", session="two")).text == "(nil)"
    assert (await ask(prompt, "EXEC")).text == "1) OK"
    assert client.get("a") is None


async def test_a_wide_nested_reply_is_cut_and_the_page_says_so(prompt, client):
    for _ in range(40):
        client.xadd("wide", {f"field{number}": "x" * 1000 for number in range(20)})
    exchange = await ask(prompt, "XRANGE wide - +", read_only=True)
    assert len(exchange.text) < 200_000
    assert "The reply was cut" in exchange.text
    assert (await ask(prompt, "PING")).text == "PONG"


async def test_a_reply_of_too_many_bytes_closes_the_connection_and_says_why(prompt, client, monkeypatch):
    monkeypatch.setattr(room.resp, "READ_BYTES", 1 << 20)
    client.set("big", "x" * 2_000_000)
    exchange = await ask(prompt, "GET big")
    assert exchange.kind == "error"
    assert "more than 1 MB" in exchange.text


@pytest.mark.parametrize(
    "line",
    ["", "   ", 'GET "a', "GET 'a'b", "x" * 200_000,
     "MONITOR", "SUBSCRIBE a", "psubscribe a", "SYNC", "PSYNC ? -1", "CLIENT REPLY OFF", "UNSUBSCRIBE", "punsubscribe a", "SUNSUBSCRIBE"],
)  # fmt: skip
async def test_what_is_no_command_or_has_no_reply_for_a_page_is_not_sent(prompt, line):
    assert (await ask(prompt, line, sure=True)).kind == "refused"


@pytest.mark.parametrize(
    "line",
    ["FLUSHALL", "flushdb", "KEYS *", "SHUTDOWN NOSAVE", "CONFIG SET hz 10", "XGROUP DESTROY s g", "SAVE", "CLIENT KILL ID 1"],
)  # fmt: skip
async def test_a_dangerous_command_is_asked_back_and_sent_when_one_is_sure(prompt, client, line):
    client.set("a", "1")
    assert (await ask(prompt, line)).kind == "asked"
    assert client.get("a") == b"1"
    if line == "FLUSHALL":
        assert (await ask(prompt, line, sure=True)).text == "OK"
        assert client.get("a") is None


async def test_what_was_asked_back_in_a_transaction_is_asked_back_again_by_exec(prompt, client):
    client.set("a", "1")
    await ask(prompt, "MULTI")
    await ask(prompt, "GET a")
    assert (await ask(prompt, "FLUSHALL")).kind == "asked"
    assert (await ask(prompt, "FLUSHALL", sure=True)).text == "QUEUED"
    asked = await ask(prompt, "EXEC")
    assert (asked.kind, asked.text) == ("asked", "EXEC runs the 2 queued commands, among them FLUSHALL.")
    assert client.get("a") == b"1"
    assert "OK" in (await ask(prompt, "exec", sure=True)).text
    assert client.get("a") is None
    for line in ("MULTI", "GET a", "EXEC"):
        assert (await ask(prompt, line)).kind == "reply"
    await ask(prompt, "MULTI")
    await ask(prompt, "FLUSHALL", sure=True)
    assert (await ask(prompt, "DISCARD")).kind == "reply"
    for line in ("MULTI", "GET a", "EXEC"):
        assert (await ask(prompt, line)).kind == "reply"


@pytest.mark.parametrize(
    "line", ["FUNCTION FLUSH", "function delete x", "FUNCTION RESTORE x FLUSH", "SCRIPT FLUSH"]
)
async def test_what_loses_scripts_is_asked_back(prompt, line):
    asked = await ask(prompt, line)
    assert asked.kind == "asked"
    assert "keeps no copy" in asked.text


@pytest.mark.parametrize(
    "line", ["PING", "INFO", "CLIENT LIST", "SLOWLOG GET", "CONFIG GET maxmemory", "XINFO HELP", "SET a 1"]
)
async def test_what_only_reads_or_writes_a_key_is_not_asked_back(prompt, line):
    assert (await ask(prompt, line)).kind == "reply"


async def test_read_only_refuses_every_command_that_the_server_flags_as_writing(prompt, link, client):
    """All commands there are, subcommands, too; each with no arguments, so that a hole shows as an error of the server."""
    client.set("a", "1")
    names = [name.decode().replace("|", " ").upper() for name in client.command_list()]
    assert len(names) > 300
    sent = []
    for name in names:
        flags = (await rule_of(link, name.encode().split())).flags
        exchange = await ask(prompt, name, read_only=True, sure=True)
        if name == "QUIT":  # the next line, any command, only says that the connection is gone
            assert (await ask(prompt, "PING", read_only=True)).kind == "refused"
        if exchange.kind != "refused":
            sent.append(name)
            assert "write" not in flags, name
            assert "readonly" in flags or name.replace(" ", "|") in room._HARMLESS or name.endswith("HELP"), (
                name
            )
    assert {"GET", "XINFO STREAM", "PING", "INFO"} <= set(sent)
    refused = "SET EVAL EVAL_RO EVALSHA_RO FCALL FCALL_RO XREADGROUP SHUTDOWN DEBUG PUBLISH SORT GETEX SWAPDB".split()
    refused += ["XGROUP CREATE", "CONFIG SET", "SCRIPT FLUSH", "CLIENT KILL", "CLIENT PAUSE"]
    assert not {*refused} & {*sent}
    assert client.get("a") == b"1"


async def test_read_only_refuses_within_a_transaction_and_what_is_not_known(prompt, client):
    assert (await ask(prompt, "MULTI", read_only=True)).text == "OK"
    assert (await ask(prompt, "SET a 1", read_only=True)).kind == "refused"
    assert (await ask(prompt, "EXEC", read_only=True)).text == "(empty array)"
    assert (await ask(prompt, "MODULE.UNKNOWN a", read_only=True)).kind == "refused"
    assert client.get("a") is None


@pytest.mark.parametrize("kind", ["rillet", "redis7", "valkey"])
async def test_a_password_is_in_no_reply_and_no_echo(kind):
    with servers.start_server(kind, "--requirepass", "s3cret-word") as server:
        async with prompt_at(f"redis://:s3cret-word@127.0.0.1:{server.port}") as prompt:
            for line in (
                "CONFIG GET *", "CONFIG GET requirepass", "MULTI", "CONFIG GET requirepass", "EXEC", "AUTH s3cret-word",
                "HELLO 2 AUTH default s3cret-word", "config get require*",
            ):  # fmt: skip
                exchange = await ask(prompt, line)
                assert exchange.kind == "reply"
                assert "s3cret" not in exchange.line + exchange.text
            assert "requirepass" in exchange.text
            assert "(hidden)" in exchange.text


@pytest.mark.parametrize("kind", ["rillet", "redis7", "redis810", "valkey"])
async def test_no_command_of_a_read_only_console_shows_a_secret(kind):
    word = "s3cret-word"
    secret = {"requirepass": word, "masterauth": word, "masteruser": "s3cret-name", "tls-key-file-pass": word}
    with servers.start_server(
        kind, *(text for name in secret for text in (f"--{name}", secret[name]))
    ) as server:
        client = redis.Redis(port=server.port, password=word, decode_responses=True)
        client.config_set("slowlog-log-slower-than", 0)
        client.acl_setuser("bob", enabled=True, passwords=[f"+{word}"], keys="*")
        client.config_set("masterauth", word)
        with contextlib.suppress(redis.RedisError):
            client.execute_command("MIGRATE", "127.0.0.1", 1, "key", 0, 1, "AUTH", word)
        client.hset("h", mapping={"requirepass": "shown", "n": 1})
        hidden = [word, "s3cret-name", hashlib.sha256(word.encode()).hexdigest()[:20]]
        async with prompt_at(f"redis://:{word}@127.0.0.1:{server.port}") as prompt:
            names = [line + more for line in _TELLING for more in ("", " *", " bob", " * *")]
            some = ["CONFIG GET *", "config get require* masterauth", "SLOWLOG GET -1", "CLIENT LIST"]
            ran = []
            for line in [*names, *some, "HELLO 2", *some, "MULTI", *some, "EXEC"]:
                exchange = await ask(prompt, line, read_only=True, sure=True)
                assert not any(each in exchange.line + exchange.text for each in hidden), line
                ran += [line] if exchange.kind == "reply" else []
            assert {*some, "EXEC"} <= {*ran}
            assert exchange.text.count("(hidden)") >= 2
            assert "shown" in (await ask(prompt, "HGETALL h", read_only=True)).text
        client.close()


# All that a read-only console lets through and that is no reading of keys.
_TELLING = sorted(
    name.replace("|", " ")
    for name in room._HARMLESS
    if name not in {"MULTI", "EXEC", "DISCARD", "QUIT", "RESET", "HELLO", "AUTH", "SELECT"}
    and not name.startswith(("X", "Z"))
)


async def test_a_read_only_console_shows_the_values_of_directives_that_it_knows_alone(
    prompt, client, monkeypatch
):
    monkeypatch.setattr(room, "SHOWN", room.SHOWN - {b"maxmemory-policy"})  # as of a version to come
    for lines in (
        ["CONFIG GET max*"],
        ["HELLO 2", "CONFIG GET max*"],
        ["MULTI", "GET a", "config get max*", "EXEC"],
    ):
        for line in lines:
            text = (await ask(prompt, line, read_only=True)).text
        assert "noeviction" not in text
        assert '"maxmemory-samples"' in text
        assert text.count("(hidden)") == 1
        assert "noeviction" in (await ask(prompt, "CONFIG GET maxmemory-policy")).text


@pytest.mark.parametrize("line", ['AUTH default "hunter2', "AUTH default 'hunter2", 'AUTH "hunter2"x'])
async def test_a_line_whose_quotes_are_wrong_is_not_echoed(prompt, line):
    exchange = await ask(prompt, line)
    assert exchange.kind == "refused"
    assert "hunter2" not in exchange.line + exchange.text


async def test_a_question_is_answered_once_by_its_own_page_and_old_ones_are_forgotten(
    prompt, client, monkeypatch
):
    monkeypatch.setattr(room, "QUESTIONS", 2)
    asked = await ask(prompt, "ACL SETUSER bob >hunter2")
    assert asked.kind == "asked"
    assert "hunter2" not in asked.line + asked.text + asked.nonce
    refused = [await prompt.run("two", "", read_only=False, sure=asked.nonce)]
    refused.append(await prompt.run("one", "", read_only=False, sure=asked.nonce))
    nonces = [(await ask(prompt, "FLUSHALL")).nonce for _ in range(3)]
    client.set("a", "1")
    refused.append(await prompt.run("one", "", read_only=False, sure=nonces[0]))
    assert {one.kind for one in refused} == {"refused"}
    assert client.get("a") == b"1"
    assert (await prompt.run("one", "", read_only=True, sure=nonces[1])).kind == "refused"
    assert client.get("a") == b"1"
    assert (await prompt.run("one", "", read_only=False, sure=nonces[2])).text == "OK"
    assert "bob" not in client.acl_users()


@pytest.mark.parametrize("first", ["PING", "HELLO 2", "MULTI"])
async def test_hashes_of_passwords_are_hidden_in_replies(prompt, client, first):
    client.acl_setuser("bob", enabled=True, passwords=["+hunter2", "+hunter3"], keys="*")
    digest = hashlib.sha256(b"hunter2").hexdigest()
    try:
        await ask(prompt, first)
        replies = [await ask(prompt, line, sure=True) for line in ("ACL LIST", "ACL GETUSER bob")]
        if first == "MULTI":
            replies = [await ask(prompt, "EXEC")]
        text = "\n".join(reply.text for reply in replies)
        assert "user bob on" in text
        assert "passwords" in text
        assert text.count("(hidden)") == 4
        assert digest[:16] not in text
    finally:
        client.acl_deluser("bob")


async def test_a_reply_that_does_not_come_ends_the_connection_and_the_next_line_works(prompt, monkeypatch):
    assert (await ask(prompt, "PING")).text == "PONG"  # the connection is there, whatever that takes
    monkeypatch.setattr(room, "REPLY_SECONDS", 0.05)
    assert "No reply" in (await ask(prompt, "BLPOP nothing 0")).text
    monkeypatch.undo()
    assert "new connection" in (await ask(prompt, "PING")).text
    assert (await ask(prompt, "PING")).text == "PONG"


async def is_sent_the_second_time(prompt, client, line="SET a 1", session="one"):
    """The first time nothing is sent, and the page says why."""
    answer = await ask(prompt, line, session=session)
    assert (answer.kind, answer.changes, answer.place) == ("refused", False, "db0")
    assert "new connection: database 0, no MULTI" in answer.text
    assert client.get("a") is None
    assert (await ask(prompt, line, session=session)).text == "OK"
    assert client.get("a") == b"1"


async def test_after_quit_a_line_is_not_sent_before_the_page_says_that_its_database_is_another(
    prompt, client
):
    assert (await ask(prompt, "SELECT 5")).place == "db5"
    assert (await ask(prompt, "QUIT")).text == "OK"
    await is_sent_the_second_time(prompt, client)


async def test_a_connection_that_the_server_closed_is_noticed_before_a_line_is_sent(prompt, client):
    await ask(prompt, "SELECT 5")
    await ask(prompt, "MULTI")
    client.client_kill_filter(_type="normal", skipme=True)
    reader = prompt._sessions["one"]._connection._reader
    while not reader.at_eof():
        await asyncio.sleep(0.01)
    await is_sent_the_second_time(prompt, client)


async def test_a_session_that_made_room_for_others_is_not_silently_another(prompt, client, monkeypatch):
    monkeypatch.setattr(room, "SESSIONS", 3)
    for number in range(10):
        assert (await ask(prompt, "SELECT 2", session=f"s{number}")).text == "OK"
    assert len(prompt._sessions) == 3
    await is_sent_the_second_time(prompt, client, session="s0")


async def test_an_idle_session_is_closed_and_its_page_says_so(prompt, client, monkeypatch):
    await ask(prompt, "SELECT 2")
    monkeypatch.setattr(room, "IDLE_SECONDS", 0)
    await ask(prompt, "PING", session="two")
    assert list(prompt._sessions) == ["two"]
    await is_sent_the_second_time(prompt, client)


async def test_an_idle_connection_is_closed_by_the_tick_without_another_line(link, client, monkeypatch):
    def prompts():
        return [one for one in client.client_list() if one["cmd"] == "ping"]

    console = Console(Poller(link, tick=0.01), Guard())
    app = console.application()
    async with app.router.lifespan_context(app):
        await ask(console.prompt, "PING")
        assert len(prompts()) == 1
        for _ in range(3):
            await console.poller.ticked()
        assert len(prompts()) == 1  # it is not idle for long
        monkeypatch.setattr(room, "IDLE_SECONDS", 0)
        async with asyncio.timeout(60):
            while prompts():
                await console.poller.ticked()
        assert (await ask(console.prompt, "PING")).kind == "refused"


async def test_a_session_in_multi_or_waiting_for_its_reply_makes_no_room(prompt, client, monkeypatch):
    monkeypatch.setattr(room, "SESSIONS", 2)
    monkeypatch.setattr(room, "IDLE_SECONDS", 0)
    await ask(prompt, "MULTI", session="multi")
    waiting = asyncio.ensure_future(ask(prompt, "BLPOP list 0", session="waiting"))
    while not any("b" in one["flags"] for one in client.client_list()):
        await asyncio.sleep(0.01)
    full = await ask(prompt, "SET a 1", session="third")
    assert full.kind == "refused"
    assert "End one of them first" in full.text
    client.rpush("list", "x")
    assert '"x"' in (await waiting).text
    assert (await ask(prompt, "PING", session="third")).text == "PONG"
    assert (await ask(prompt, "PING", session="multi")).text == "QUEUED"
    monkeypatch.setattr(room, "MULTI_IDLE_SECONDS", 0)
    assert (await ask(prompt, "PING", session="fourth")).text == "PONG"
    assert list(prompt._sessions) == ["fourth"]


async def test_many_lines_at_once_evict_without_an_error(prompt, client, monkeypatch):
    monkeypatch.setattr(room, "SESSIONS", 2)
    monkeypatch.setattr(room, "IDLE_SECONDS", 0)
    for _ in range(5):
        found = await asyncio.gather(*(ask(prompt, "PING", session=f"s{number}") for number in range(12)))
        assert {one.kind for one in found} <= {"reply", "refused"}
    assert len(prompt._sessions) <= 2
    assert not prompt._evicted


async def test_the_database_and_the_transaction_of_the_next_line_are_known(prompt, client):
    for line, place in (
        ("PING", "db0"), ("SELECT 3", "db3"), ("SELECT 99999", "db3"), ("MULTI", "db3(TX)"), ("SELECT 4", "db3(TX)"),
        ("SET a 1", "db3(TX)"), ("EXEC a b", "db3"), ("MULTI", "db3(TX)"), ("SELECT 4", "db3(TX)"),
        ("SELECT 99999", "db3(TX)"), ("EXEC", "db4"), ("MULTI", "db4(TX)"), ("SELECT 5", "db4(TX)"), ("DISCARD", "db4"),
        ("MULTI", "db4(TX)"), ("RESET", "db0"),
    ):  # fmt: skip
        assert (await ask(prompt, line)).place == place, line
    assert (await ask(prompt, "SET a 1")).text == "OK"
    assert client.get("a") == b"1"


async def test_help_completes_names_and_says_how_a_command_is_written(prompt):
    assert "XADD" in (await prompt.help("xa", "a")).completions
    assert "XGROUP CREATE" in (await prompt.help("xgroup c", "a")).completions
    assert "XGROUP SETID" in (await prompt.help("XGROUP ", "a")).completions
    found = await prompt.help("XCLAIM orders", "a")
    assert found.name == "XCLAIM"
    assert found.arguments.startswith("key group consumer min-idle-time")
    assert "[JUSTID]" in found.arguments
    assert found.completions == ()
    assert (await prompt.help("", "a")).name == ""
    assert (await prompt.help("\x00<b> '", "a")).completions == ()


async def test_a_server_that_goes_is_an_error_and_one_that_comes_back_is_found():
    with servers.start_server("redis7") as server:
        async with prompt_at(f"redis://127.0.0.1:{server.port}") as prompt:
            assert (await ask(prompt, "PING")).text == "PONG"
            session = prompt._sessions["one"]
            with redis.Redis(port=server.port) as other:
                other.client_kill_filter(_type="normal", skipme=True)
            assert (await prompt._send(session, [b"PING"], "PING")).kind in {"error", "refused"}
            while (await ask(prompt, "PING")).kind == "refused":
                pass
            assert (await ask(prompt, "PING")).text == "PONG"
