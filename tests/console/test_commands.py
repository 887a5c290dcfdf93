"""`rillet dev` and `rillet top`, as they are typed."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import redis
from support.programs.console import ConsoleProcess

from rillet.console import top
from rillet.console.link import Link
from rillet.console.poller import Poller


def address_of(client):
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def test_what_the_page_types_starts_a_console(running, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^rillet console (.*)$",
        "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)),
        re.MULTILINE,
    )
    assert len(lines) == 2
    (tmp_path / "token").write_text("secret")
    for line in lines:
        address, *flags = shlex.split(line.replace("/etc/rillet/token", str(tmp_path / "token")))
        assert re.fullmatch(r"redis://[\w.]+:6379", address)
        with ConsoleProcess(f"redis://127.0.0.1:{running('rillet').port}", *flags) as console:
            assert console.ask("/").status == (401 if "--token-file" in flags else 200)


def test_dev_starts_a_server_and_a_console_that_may_change_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ConsoleProcess("", "--port", "0", verb="dev") as console:
        port = int(re.search(r"Server: redis://127.0.0.1:(\d+)", "".join(console.lines))[1])
        with redis.Redis(port=port) as client:
            client.xadd("orders", {"item": "cup"})
            assert client.execute_command("DEBUG", "CLOCK", "NOW")
        page = console.ask("/act/add?key=orders&value=1").text
        assert "read-only" not in page
        assert 'method="post"' in page
        with redis.Redis(port=port) as client:
            entry = client.xadd("orders", {"item": "cup"}).decode()
        life = console.ask(f"/message?key=orders&id={entry}").text
        assert "<strong>added</strong>" in life
        console.stop()
    assert console.status == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=port, retry=None).ping()


def test_dev_keeps_the_data_where_it_is_asked_to(tmp_path):
    folder = str(tmp_path / "data")
    for expected in (0, 1):
        with ConsoleProcess("", "--port", "0", "--persist", folder, verb="dev") as console:
            port = int(re.search(r"Server: redis://127.0.0.1:(\d+)", "".join(console.lines))[1])
            with redis.Redis(port=port) as client:
                assert client.xlen("orders") == expected
                client.xadd("orders", {"item": "cup"})
            console.stop()


def test_dev_shows_the_life_of_a_message_after_a_restart(tmp_path):
    folder = str(tmp_path / "data")
    for number in (0, 1):
        with ConsoleProcess("", "--port", "0", "--persist", folder, verb="dev") as console:
            port = int(re.search(r"Server: redis://127.0.0.1:(\d+)", "".join(console.lines))[1])
            with redis.Redis(port=port) as client:
                if number == 0:
                    client.xgroup_create("orders", "billing", "0", mkstream=True)
                    entry = client.xadd("orders", {"item": "cup"}).decode()
                    client.xreadgroup("billing", "Bob", {"orders": ">"})
                else:
                    client.xack("orders", "billing", entry)
            page = console.ask(f"/message?key=orders&id={entry}").text
            console.stop()
    life = re.findall(r"<strong>([^<]+)</strong>", page[page.index('class="timeline"') :])
    assert life == ["added", "delivered", "acknowledged"]
    assert "From the server's append-only file" in page
    assert "has no time here" not in page


def test_top_prints_streams_in_trouble_first(client, capsys):
    client.xadd("quiet", {"a": 1})
    client.xadd("orders", {"item": "cup"}, "1-0")
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "Bob", {"orders": ">"})
    for _ in range(5):
        client.xclaim("orders", "billing", "Bob", 0, ["1-0"])
    assert top.main([address_of(client), "--once"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("orders") < shown.index("billing") < shown.index("quiet")
    assert "▲ 6x" in shown


def test_top_says_when_the_server_cannot_be_reached(capsys):
    assert top.main(["redis://127.0.0.1:1", "--once"]) == 1
    assert "redis://127.0.0.1:1:" in capsys.readouterr().err


async def test_the_table_of_top_is_as_long_as_the_terminal(client):
    from rich.console import Console

    for number in range(30):
        client.xadd(f"s{number}", {"a": 1})
    async with Link(address_of(client)) as link:
        poller = Poller(link)
        await poller.round()
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123
            console = Console(record=True, width=100, file=nowhere)
            console.print(top.table(poller.overview, link.shown, rows=10))
    shown = console.export_text()
    assert "20 more lines" in shown
    assert len(shown.splitlines()) == 14
