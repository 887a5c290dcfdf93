"""A server that cannot be read: the reason and the next step, at the start and on the page; and users with few rights."""

import re
import sys
from pathlib import Path

import pytest
import redis
from support import servers
from support.programs.console import ConsoleProcess, address_of, deliver
from support.tls import flags, make_certificates
from support.tool import run_program
from support.until import until

from rillet.console import top
from rillet.console.actions import ACTIONS, plan, run
from rillet.console.connection import GoneError, Link
from rillet.console.connection_advice import next_step
from rillet.console.page_details import GroupSubject, MessageSubject, StreamSubject
from rillet.console.poller import Poller

CASES = {
    "nobody there": ("redis://127.0.0.1:1", "start a server with: rillet"),
    "a wrong password": ("redis://:s3cret@127.0.0.1:{}", "Check the user and the password"),
    "no password": ("redis://127.0.0.1:{}", "Give a password"),
    "no such database": ("redis://:right@127.0.0.1:{}/99", "no database of this number"),
    "no sentinel": ("redis+sentinel://127.0.0.1:1/mymaster", "a sentinel runs at the address"),
    "a server as a sentinel": (
        "redis+sentinel://127.0.0.1:{plain}/mymaster",
        "This is a server, not a sentinel",
    ),
    "a server as a cluster": ("redis+cluster://:right@127.0.0.1:{}", "not a node of a cluster"),
    "no socket": ("unix:///no/such.sock", "path of the socket"),
    "TLS to a plain port": ("rediss://:right@127.0.0.1:{}", "that the port speaks TLS"),
    "plain to a port with TLS": ("redis://127.0.0.1:{tls}", "begins with rediss://"),
    "an unknown authority": ("rediss://127.0.0.1:{tls}", "ssl_ca_certs"),
}


@pytest.fixture(scope="module", params=["rillet", "redis7"])
def places(request, tmp_path_factory):
    port = servers.free_port()
    folder = make_certificates(tmp_path_factory.mktemp("tls"))
    with (
        servers.start_server(request.param, "--requirepass", "right") as locked,
        servers.start_server(request.param, *flags(folder, tls_port=port)) as plain,
    ):
        yield {"locked": locked.port, "plain": plain.port, "tls": port}


@pytest.mark.parametrize("case", CASES)
def test_top_says_why_and_what_to_do_next(case, places, capsys):
    address, step = CASES[case]
    address = address.format(places["locked"], **places)
    assert top.main([address, "--once"]) == 1
    said = capsys.readouterr().err
    assert step in said
    assert "cannot be read: " in said
    assert "s3cret" not in said
    assert ("rillet." in said) == (case == "nobody there")


def test_a_connection_that_is_closed_between_two_writes_may_be_one_without_tls():
    """Which of the two finds it, a read or a write, is a matter of time."""
    for reason in (
        "Error UNKNOWN while writing to socket. Connection lost.",
        "Error 32 while writing to socket. Broken pipe.",
    ):
        assert "begins with rediss://" in next_step(reason, "redis://127.0.0.1:6379")
        assert "begins with rediss://" not in next_step(reason, "rediss://127.0.0.1:6379")


def test_a_console_that_cannot_read_its_server_ends_with_the_reason():
    words = ("-m", "rillet", "console", "redis://127.0.0.1:1", "--console-port", "0")
    ended = run_program(sys.executable, *words, seconds=300)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "start a server with: rillet" in ended.stderr
    assert "--wait" in ended.stderr
    assert "Traceback" not in ended.stderr


def first_page(console, text):
    """The first page once it has that text; a page that is open asks for what is new."""

    def page():
        console.ask("/now?page=/")
        return text in (found := console.ask("/")).text and found

    return until(page, every=0.1)


def test_a_console_that_waits_fills_each_page_with_the_reason():
    with (
        servers.start_server("redis7", "--requirepass", "right") as server,
        ConsoleProcess(f"redis://:s3cret@127.0.0.1:{server.port}", "--wait") as console,
    ):
        for path in ("/", "/stream?key=orders", "/keys"):
            page = console.ask(path)
            assert page.status == 503
            assert "invalid username-password pair" in page.text
            assert "Check the user and the password" in page.text
            assert "s3cret" not in page.text
            assert "nothing is pending" not in page.text
        with redis.Redis(port=server.port, password="right") as client:
            client.config_set("requirepass", "s3cret")
        assert first_page(console, "No streams yet").status == 200
        assert "Traceback" not in console.stop()


def test_a_server_that_ends_fills_the_first_page_until_it_is_back():
    """Numbers of before would look like those of now."""
    with (
        servers.start_server("redis7") as server,
        ConsoleProcess(f"redis://127.0.0.1:{server.port}") as console,
    ):
        assert console.ask("/").status == 200
        port = server.port
        server.stop()
        # The first attempt may find its connection broken; a later one finds that nothing listens.
        page = first_page(console, "start a server with: rillet")
        assert page.status == 503
        assert "The server is gone" in page.text
        assert "nothing is pending" not in page.text
        assert ".." not in page.text.partition("<main")[2]
        server.start(port)
        assert first_page(console, "No streams yet").status == 200


# Users


def lines_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `rillet (.*?)` \| `(ACL SETUSER .*?)` \|$", page, re.MULTILINE))


def test_the_page_names_a_user_for_each_use():
    assert list(lines_of_the_page()) == ["top", "console --read-only", "console --allow-writes"]


@pytest.fixture
def as_user(client):
    """Return the address of a user that one of the page's lines makes."""

    def made(line):
        client.execute_command(*line.split())
        name = line.split()[2]
        names.append(name)
        deliver(client)
        return address_of(client).replace("//", f"//{name}:secret@")

    names = []
    yield made
    for name in names:
        client.execute_command("ACL", "DELUSER", name)


def test_top_runs_as_its_user(as_user, capsys):
    assert top.main([as_user(lines_of_the_page()["top"]), "--plain"]) == 0
    assert "billing" in capsys.readouterr().out


@pytest.mark.parametrize("use", ["console --read-only", "console --allow-writes"])
def test_each_page_shows_all_to_the_user_of_the_console(use, as_user):
    with ConsoleProcess(as_user(lines_of_the_page()[use]), "--read-only") as console:
        for path in (
            "/", "/stream?key=orders", "/group?key=orders&group=billing", "/message?key=orders&id=1-0", "/keys",
            "/clients",
        ):  # fmt: skip
            page = console.ask(path)
            assert page.status == 200, page.text
            assert "permissions" not in page.text


async def test_actions_run_as_their_user(as_user):
    async with Link(as_user(lines_of_the_page()["console --allow-writes"])) as link:
        link.read_only = False
        for name, typed in (
            ("claim", {"id": "1-0", "to": "Alice"}), ("retire", {"consumer": "Alice", "to": "Bob"}),
            ("deadletter", {"id": "1-0"}), ("newgroup", {"group": "other"}), ("delgroup", {}),
        ):  # fmt: skip
            outcome = await run(link, plan(ACTIONS[name], {"key": "orders", "group": "billing", **typed}))
            assert outcome.good, outcome


async def test_a_user_that_may_only_read_sees_streams_groups_and_messages(as_user):
    async with Link(as_user("ACL SETUSER reader on >secret ~* +@read")) as link:
        poller = Poller(link)
        await poller.round()
        assert poller.overview.facts.kind == "Server"
        (group,) = poller.overview.streams[b"orders"].groups
        assert group.oldest_id == "1-0"
        assert (await poller.data_of(GroupSubject(b"orders", b"billing"))).pel
        assert (await poller.data_of(StreamSubject(b"orders"))).newest
        assert (await poller.data_of(MessageSubject(b"orders", "1-0"))).entry


async def test_a_user_that_may_not_read_is_said_what_is_missing(as_user):
    async with Link(as_user("ACL SETUSER nobody on >secret ~* +ping")) as link:
        with pytest.raises(GoneError, match="permissions"):
            await Poller(link).round()
