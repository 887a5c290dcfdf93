"""`rillet dev` and `rillet top`, as they are typed."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from support.programs.console import ConsoleProcess, address_of, deliver

from rillet.console import top
from rillet.console.connection import Link
from rillet.console.poller import Poller


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


def test_dev_keeps_the_data_and_the_life_of_a_message_where_it_is_asked_to(tmp_path):
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
                    assert client.xack("orders", "billing", entry) == 1
            page = console.ask(f"/message?key=orders&id={entry}").text
            console.stop()
    life = re.findall(r"<strong>([^<]+)</strong>", page[page.index('class="timeline"') :])
    assert life == ["added", "delivered", "acknowledged"]
    assert "From the server's append-only file" in page
    assert "has no time here" not in page


def test_top_prints_streams_in_trouble_first(client, capsys):
    client.xadd("quiet", {"a": 1})
    deliver(client)
    for _ in range(5):
        client.xclaim("orders", "billing", "Bob", 0, ["1-0"])
    assert top.main([address_of(client), "--once"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("orders") < shown.index("billing") < shown.index("quiet")
    assert "▲ 6x" in shown


async def shown_of(client, view):
    from rich.console import Console

    async with Link(address_of(client)) as link:
        poller = Poller(link)
        await poller.round()
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123
            console = Console(record=True, width=view.width, file=nowhere)
            console.print(top.table(poller.overview, link.shown, view))
    return console.export_text()


async def test_the_table_of_top_is_as_long_as_the_terminal(client):
    for number in range(30):
        client.xadd(f"s{number}", {"a": 1})
    shown = await shown_of(client, top.View(rows=10, width=100))
    assert "20 more lines" in shown
    assert len(shown.splitlines()) == 14


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 20])
async def test_numbers_stay_whole_at_any_width_and_names_get_shorter(client, width):
    name = "orders:of:a:very:long:tenant:name:" + "x" * 60 + ":end"
    deliver(client, key=name)
    client.xclaim(name, "billing", "Bob", 0, ["1-0"], idle=36_000_000, retrycount=1234567)
    shown = await shown_of(client, top.View(width=width))
    assert "10 h" in shown
    assert max(map(len, shown.splitlines())) <= width
    assert len(shown.splitlines()) == 6  # no line is wrapped
    assert "▲ 1234567x" in shown or width < 60
    assert ":end" in shown or width < 40


def test_piped_it_writes_all_lines_and_with_plain_separated_by_tabs(client, capsys):
    for number in range(1_200):
        client.xadd(f"s{number}", {"a": 1}, "1-0")
    client.xgroup_create("s7", "a group", "0")
    assert top.main([address_of(client), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "more lines" not in shown
    assert len(shown.splitlines()) >= 1_204
    assert top.main([address_of(client), "--plain"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:3] == ["stream", "group", "length"]
    assert {len(row) for row in rows} == {11}
    assert len(rows) == 1_202
    assert ["s7", '"a group"'] in [row[:2] for row in rows]


def test_keys_of_top_filter_scroll_help_and_end():
    view = top.View(rows=10)
    for key in ("\x1b[B", "j", "\x1b[6~", "k"):
        view.press(key)
    assert view.start == 11
    for key in "/ord":
        view.press(key)
    assert (view.find, view.typing, view.start) == ("ord", True, 0)
    view.press("q")
    view.press("\x7f")
    view.press("\r")
    assert (view.find, view.typing, view.ends) == ("ord", False, False)
    view.press("?")
    assert view.helps
    view.press("q")
    assert (view.helps, view.ends) == (False, False)
    view.press("\x1b")
    assert view.find == ""
    view.press("q")
    assert view.ends


def test_q_ends_a_live_table_in_a_terminal(client):
    pty = pytest.importorskip("pty")
    main, terminal = pty.openpty()
    words = [sys.executable, "-m", "rillet", "top", address_of(client)]
    process = subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True)
    os.close(terminal)
    seen = b""
    while b"streams of" not in seen:
        seen += os.read(main, 65536)
    os.write(main, b"q")
    with contextlib.suppress(OSError):  # the terminal is closed
        while os.read(main, 65536):
            pass
    assert process.wait(60) == 0
    os.close(main)


def test_the_port_of_the_page_is_port_too():
    from rillet.console.command import parser

    assert parser("rillet console", "--port").parse_args(["--port", "8080"]).console_port == 8080
    assert parser("rillet console", "--port").parse_args(["--console-port", "8081"]).console_port == 8081
