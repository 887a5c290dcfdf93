"""What the console refuses, asked for as curl would: nothing here has a browser's help or its limits."""

from __future__ import annotations

import html
import http.client
import re

import pytest
import redis
from support.console import ConsoleProcess
from support.until import until

from rillet.console.actions import ACTIONS
from rillet.console.names import quote
from rillet.console.pages import PAGES
from rillet.console.render import url

HOSTILE = {
    "html": b"<script>alert(1)</script><img src=x onerror=alert(2)>",
    "quotes": b"\"'`;--{{7*7}}{%raw%}",
    "nul": b"a\x00b\xff\xfe\r\nSet-Cookie: x=1",
    "rtl": "\u202eevil\u2066 \u05d0\u05d1".encode(),
    "spaces": b"  \t two  words ",
    "path": b"../../etc/passwd?x=1&y=2#z%00",
    "empty": b"",
}
POSTED = {
    "field": "item",
    "value": "x",
    "id": "1-0",
    "to": "Alice",
    "consumer": "Bob",
    "key": "orders",
    "group": "g",
}


@pytest.fixture(scope="module")
def peer(running):
    return running("redis7")


@pytest.fixture(scope="module")
def writing(peer):
    with ConsoleProcess(f"redis://127.0.0.1:{peer.port}", "--allow-writes") as console:
        yield console


@pytest.fixture(scope="module")
def reading(peer):
    with ConsoleProcess(f"redis://127.0.0.1:{peer.port}") as console:
        yield console


@pytest.fixture
def client(peer):
    with redis.Redis(port=peer.port) as connected:
        connected.flushall()
        connected.xadd("orders", {"item": "cup"}, "1-0")
        connected.xgroup_create("orders", "g", "0")
        connected.xreadgroup("g", "Bob", {"orders": ">"})
        yield connected


def field_of(page, name):
    return html.unescape(re.search(rf'name="{name}" value="([^"]*)"', page)[1])


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "localhost.", "[::2]:1"])
def test_another_host_is_refused_everywhere(writing, host):
    for path in (*PAGES, "/live?page=/", "/act/add", "/static/console.js"):
        assert writing.ask(path, headers={"X-Forwarded-Host": "127.0.0.1"}, host=host or "x").status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost.evil.example"]
)
def test_another_origin_is_refused_everywhere(client, writing, origin):
    for path in (*PAGES, "/live?page=/", "/act/add"):
        assert writing.ask(path, headers={"Origin": origin}).status == 403
    form = {**POSTED, "csrf": field_of(writing.ask("/act/add?key=orders&value=1").text, "csrf")}
    assert writing.ask("/act/add", form, headers={"Origin": origin}).status == 403
    assert client.xlen("orders") == 1


def test_a_post_that_a_browser_calls_cross_site_is_refused(client, writing):
    shown = writing.ask("/act/add?key=orders&value=1").text
    form = {**POSTED, "csrf": field_of(shown, "csrf"), "shown": field_of(shown, "shown")}
    for site in ("cross-site", "same-site"):
        assert writing.ask("/act/add", form, headers={"Sec-Fetch-Site": site}).status == 403
    assert client.xlen("orders") == 1


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_a_post_without_a_token_changes_nothing(client, writing, name):
    before = client.execute_command("DUMP", "orders")
    for csrf in ({}, {"csrf": ""}, {"csrf": "wrong"}):
        assert writing.ask(f"/act/{name}", {**POSTED, **csrf}).status == 403
    assert writing.ask(f"/act/{name}", method="PUT").status == 405
    assert client.execute_command("DUMP", "orders") == before


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_read_only_holds_on_the_server_and_still_shows_the_command(client, reading, writing, name):
    before = client.execute_command("DUMP", "orders")
    query = url(f"/act/{name}", **POSTED)
    page = reading.ask(query).text
    assert '<form method="post"' not in page
    if ACTIONS[name].needs == "":
        assert "What is sent" in page
    # Even with a valid token and the exact command, as a page that allows writes would have them.
    form = {**POSTED, "csrf": csrf_of(reading), "shown": "x"}
    assert reading.ask(f"/act/{name}", form).status == 403
    assert client.execute_command("DUMP", "orders") == before


def csrf_of(console):
    """The token of a console that puts it into no page: it is read-only, so the worst is assumed."""
    found = re.search(r'name="csrf" value="([^"]*)"', console.ask("/act/add?key=a&value=b").text)
    return found[1] if found else "unknown"


def test_what_runs_is_what_was_shown(client, writing):
    shown = writing.ask(url("/act/add", key="orders", value="1")).text
    form = {
        "csrf": field_of(shown, "csrf"),
        "shown": field_of(shown, "shown"),
        "key": "orders",
        "field": "item",
        "value": "2",
    }
    assert writing.ask("/act/add", form).status == 409
    assert client.xlen("orders") == 1
    assert writing.ask("/act/add", {**form, "value": "1"}).status == 303
    assert client.xlen("orders") == 2


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_names_and_values_are_text_on_every_page(client, writing, name):
    word = HOSTILE[name]
    client.xadd(word, {word: word, "json": b'{"<b>x</b>": "<script>1</script>"}'}, "1-0")
    client.xgroup_create(word, word, "0")
    client.xreadgroup(word, word, {word: ">"})
    names = {"key": word, "group": word, "consumer": word}
    paths = [
        "/",
        url("/stream", key=word),
        url("/stream", key=word, field=word, contains="<script>"),
        url("/group", key=word, group=word),
        url("/message", key=word, id="1-0"),
        *(
            url(f"/act/{action}", **names, to=word, field=word, value="<script>", id="1-0")
            for action in ACTIONS
        ),
    ]
    for path in paths:
        answer = writing.ask(path)
        assert answer.status == 200, (path, answer.text)
        assert "set-cookie" not in answer.headers
        for sign in ("<script>alert", "<img", "<b>x", "<script>1", "49{", "\x00", "\u202e", "\u2066"):
            assert sign not in answer.text, (path, sign)
    assert re.search(r"<bdi>.+</bdi>", writing.ask(url("/group", key=word, group=word)).text)


def test_hostile_names_come_through_actions_unchanged(client, writing):
    for word in HOSTILE.values():
        client.xadd(word, {"a": 1}, "1-0")
        client.xgroup_create(word, word, "0")
        client.xreadgroup(word, word, {word: ">"})
        shown = writing.ask(url("/act/claim", key=word, group=word, id="1-0", to=word + b"2")).text
        form = {"csrf": field_of(shown, "csrf"), "shown": field_of(shown, "shown")}
        form |= {"key": quote(word), "group": quote(word), "id": "1-0", "to": quote(word + b"2")}
        form |= {"idle": "0", "count": "grow"}
        assert writing.ask("/act/claim", form).status == 303
        assert client.xpending_range(word, word, "-", "+", 1)[0]["consumer"] == word + b"2"


def test_values_and_field_names_of_megabytes_are_cut(client, writing):
    client.xadd("orders", {b"<f>" * 400_000: b"<v>" * 3_500_000}, "2-0")
    for path in ("/stream?key=orders", "/message?key=orders&id=2-0", "/stream?key=orders&from=2-0"):
        answer = writing.ask(path)
        assert answer.status == 200
        assert len(answer.text) < 60_000
        assert "1,200,000 bytes" in answer.text


def test_a_key_that_is_too_long_for_an_address_is_shown_without_a_link(client, writing):
    client.xadd(b"k" * 100_000, {"a": 1})
    # Of a page that was made before the key came, only the next round knows more.
    until(lambda: "(100,000 bytes)" in writing.ask("/?sort=name").text)
    assert "k" * 5_000 not in writing.ask("/?sort=name").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/stream", 400),
        ("/group?key=orders", 400),
        ("/message?key=orders&id=abc", 400),
        ("/stream?key=%22open", 400),
        ("/stream?key=nothing", 404),
        ("/group?key=orders&group=nothing", 404),
        ("/message?key=orders&id=9-9", 404),
        ("/nothing", 404),
        ("/live?page=/nothing", 404),
        ("/act/nothing", 404),
        ("/done/nothing", 404),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
    ],
)
def test_an_address_that_leads_nowhere_says_so(client, writing, path, status):
    answer = writing.ask(path)
    assert answer.status == status
    assert "Traceback" not in answer.text


def test_every_answer_forbids_what_a_page_does_not_need(client, writing):
    for path in ("/", "/nothing", "/static/console.css", "/act/add"):
        headers = writing.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    page = writing.ask("/group?key=orders&group=g").text
    assert not re.search(r"<script(?! src=\"/static/)|<style|\son\w+=|\sstyle=|javascript:", page)


def test_a_form_of_another_type_or_size_is_refused(writing):
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"}):
        assert writing.ask("/act/add", method="POST", headers=headers).status == 403
    assert writing.ask("/act/add", {"value": "x" * 2_000_000}).status == 403


def test_the_password_is_in_no_page_and_no_log():
    from support import servers

    with servers.start_server("redis7", "--requirepass", "s3cret-word") as server:
        url = f"redis://127.0.0.1:{server.port}"
        with redis.Redis(port=server.port, password="s3cret-word") as client:
            client.xadd("orders", {"a": 1}, "1-0")
        with ConsoleProcess(url, env={"REDISCLI_AUTH": "s3cret-word"}) as console:
            pages = [console.ask(path) for path in ("/", "/stream?key=orders", "/nothing")]
            assert [page.status for page in pages] == [200, 200, 404]
            server.stop()
            pages += [console.ask(path) for path in ("/", "/stream?key=orders")]
            said = console.stop()
    assert console.status == 0
    for text in (said, *(page.text + str(page.headers) for page in pages)):
        assert "s3cret" not in text


def test_a_token_is_asked_for_and_kept_as_a_cookie(peer, tmp_path):
    file = tmp_path / "token"
    file.write_text("open-sesame\n")
    flags = ("--token-file", str(file), "--allow-host", "console.example")
    with ConsoleProcess(f"redis://127.0.0.1:{peer.port}", *flags) as console:
        assert console.ask("/").status == 401
        assert console.ask("/live?page=/").status == 401
        assert console.ask("/", headers={"Accept": "text/html"}).headers["location"] == "/login"
        assert console.ask("/", headers={"Authorization": "Bearer wrong"}).status == 401
        assert (
            console.ask("/", headers={"Authorization": "Bearer open-sesame"}, host="console.example").status
            == 200
        )
        assert console.ask("/login", {"token": "wrong"}).status == 401
        answer = console.ask("/login", {"token": "open-sesame"}, host="console.example")
        cookie = answer.headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert "open-sesame" not in cookie
        assert console.ask("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200
        assert console.ask("/", headers={"Cookie": "rillet_console=wrong"}).status == 401
        assert "open-sesame" not in console.ask("/login").text
        assert (
            console.ask("/login", {"token": "open-sesame"}, headers={"Origin": "http://evil.example"}).status
            == 403
        )


def test_beyond_loopback_a_token_is_needed(capfd):
    from rillet.console.command import main

    with pytest.raises(SystemExit) as ended:
        main(["redis://127.0.0.1:1", "--console-bind", "0.0.0.0", "--console-port", "0"])
    assert ended.value.code == 2
    assert "needs a token" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words", [["http://x"], ["redis+sentinel://x:1"], ["redis://x", "--token-file", "/nothing"]]
)
def test_a_wrong_command_line_is_said_and_nothing_starts(capfd, words):
    from rillet.console.command import main

    with pytest.raises(SystemExit):
        main([*words, "--console-port", "0"])
    assert "error:" in capfd.readouterr().err


def test_a_signal_ends_the_console_in_order_while_pages_are_open(peer):
    with ConsoleProcess(f"redis://127.0.0.1:{peer.port}") as console:
        connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=60)
        connection.request("GET", "/live?page=/")
        reply = connection.getresponse()
        assert reply.readline().startswith(b"event: ")
        said = console.stop()
        connection.close()
    assert (console.status, said.count("\n")) == (0, 1), said
