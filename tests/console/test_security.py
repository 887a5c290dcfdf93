"""Who may ask the console: hosts, origins and tokens, without a server."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.console import security
from rillet.console.security import COOKIE, GUESSES, Authority, Guard, TooManyError

EVIL_HOSTS = [
    *"127.0.0.1:80@evil.example [::1]evil.example [::1]:80@evil.example [::1].evil.example".split(),
    *"user@127.0.0.1 127.0.0.1@evil.example 127.0.0.1:evil.example 127.0.0.1: 127.0.0.1:0".split(),
    *"127.0.0.1:65536 127.0.0.1:80:80 127.0.0.1:+80 127.0.0.1,evil.example 127.0.0.1/evil".split(),
    *"127.0.0.1# 127.0.0.1? 127.0.0.1. localhost. localhost.. local..host 127.1 0177.0.0.1".split(),
    *"2130706433 ::1 [::1 ::1] [::1]] [[::1]] [::1%lo] [::2] [localhost] [] evil.example".split(),
    *"localhost.evil.example evil-localhost".split(),
    *("127.0.0.1:80 ", " 127.0.0.1", "127.0.0.1\t", "127.0.0.1\\evil", "127.0.0.1\0", "", "loc\u0430lhost"),
    *("loca\u017fhost", "\uff11\uff12\uff17.0.0.1", "localhost:\u0668\u0660"),
]
GOOD_HOSTS = [
    *"127.0.0.1 127.0.0.1:8001 localhost LocalHost:1 [::1] [::1]:65535 [0:0:0:0:0:0:0:1]:80".split(),
    *"[0000::0001] Console.Example my_console:3000 [fd00::a] xn--bcher-kva.example".split(),
]
HOSTS = frozenset({"console.example:8443", "my_console", "fd00::A", "bücher.example"})


def ask(guard, *headers, method="GET", path="/", client=("10.0.0.1", 5)):
    """The status of the answer to a request with these headers."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    guard.app = app
    raw = [(name.lower().encode(), value.encode("utf-8")) for name, value in headers]
    scope = {
        "type": "http", "method": method, "path": path, "headers": raw, "query_string": b"", "client": client,
    }  # fmt: skip
    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"]


@pytest.mark.parametrize("host", EVIL_HOSTS)
def test_what_is_no_host_of_ours_is_refused(host):
    assert ask(Guard(HOSTS), ("Host", host)) == 421


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_our_hosts_are_served_however_they_are_written(host):
    assert ask(Guard(HOSTS), ("Host", host)) == 200


def test_one_host_is_needed():
    assert ask(Guard()) == 421
    assert ask(Guard(), ("Host", "localhost"), ("Host", "localhost")) == 421
    assert ask(Guard(), ("Host", "localhost"), ("host", "evil.example")) == 421


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:1", "localhost:1"), ("HTTP://LOCALHOST:1", "localhost:1"),
        ("http://localhost", "localhost:80"), ("http://localhost:80", "localhost"), ("https://localhost", "localhost"),
        ("https://localhost:443", "localhost"), ("http://[0:0::1]:1", "[::1]:1"),
    ],
)  # fmt: skip
def test_our_own_origin_is_served(origin, host):
    assert ask(Guard(), ("Host", host), ("Origin", origin), method="POST") == 200


@pytest.mark.parametrize(
    "origin",
    [
        *"null localhost:1 //localhost:1 http://localhost:1/ http://localhost:1/path".split(),
        *"http://localhost:1@evil.example http://user@localhost:1 http://evil.example#localhost:1".split(),
        *"http://localhost:2 http://localhost https://localhost http://localhost:1.evil.example".split(),
        *"http://localhost:1,http://localhost:1 file://localhost:1 javascript://localhost:1".split(),
        *"chrome-extension://localhost:1 ws://localhost:1".split(),
        *("", "http://evil.example\\@localhost:1", "http://localhost:1 ", "http:// localhost:1"),
        "http://localhost:1\n",
    ],
)
def test_another_origin_is_refused(origin):
    for method in ("GET", "POST"):
        assert ask(Guard(), ("Host", "localhost:1"), ("Origin", origin), method=method) == 403


def test_headers_that_come_twice_do_not_hide_each_other():
    ours, host = ("Origin", "http://localhost:1"), ("Host", "localhost:1")
    assert ask(Guard(), host, ours, ("Origin", "http://evil.example")) == 403
    assert ask(Guard(), host, ours, ours) == 403
    sites = ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")
    assert ask(Guard(), host, *sites, method="POST") == 403


@given(st.text(max_size=40))
def test_a_text_is_a_host_and_a_port_or_nothing(text):
    found = Authority.parse(text)
    if found is not None:
        port = "" if found.port is None else f":{found.port}"
        assert Authority.parse(found.host + port) == found
        assert not set("@/\\?# \t\r\n,") & set(text)


@pytest.mark.parametrize(
    "host", ["", "a b", "http://console.example", "user@host", "a/b", "[::1]x", "*", "."]
)
def test_an_option_that_is_no_host_is_said(host):
    with pytest.raises(ValueError, match="is not a host"):
        Guard(frozenset({host}))


# Tokens


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(security.time, "monotonic", lambda: now[0])
    return now


def bearer(token):
    return ("Host", "localhost"), ("Authorization", f"Bearer {token}")


def test_wrong_tokens_are_limited_over_all_connections(clock):
    guard = Guard(token="right")
    for number in range(GUESSES):
        assert ask(guard, *bearer(f"wrong{number}"), client=(f"10.0.0.{number}", number)) == 401
    assert ask(guard, *bearer("wrong"), client=("10.0.1.1", 1)) == 429
    assert ask(guard, *bearer("right"), client=("10.0.1.2", 1)) == 429  # not even looked at
    with pytest.raises(TooManyError):
        guard.accepts("right", "10.0.1.3")
    clock[0] += 1
    assert ask(guard, *bearer("wrong")) == 401
    assert ask(guard, *bearer("wrong")) == 429
    clock[0] += 1
    assert ask(guard, *bearer("right")) == 200
    clock[0] += 1_000_000
    for _ in range(GUESSES):
        assert not guard.accepts("wrong", "10.0.2.1")
    with pytest.raises(TooManyError):
        guard.accepts("wrong", "10.0.2.1")


def test_right_tokens_cost_nothing_and_strangers_lock_nobody_out(clock):
    guard = Guard(token="right")
    for _ in range(3 * GUESSES):
        assert ask(guard, *bearer("right"), client=("10.0.0.7", 1)) == 200
    for _ in range(2 * GUESSES):
        ask(guard, *bearer("wrong"), client=("10.0.0.8", 1))
    assert ask(guard, *bearer("right"), client=("10.0.0.7", 2)) == 200
    for _ in range(2 * GUESSES):
        ask(guard, *bearer("wrong"), client=("10.0.0.7", 1))
    assert ask(guard, *bearer("wrong"), client=("10.0.0.7", 1)) == 429


def test_a_cookie_is_no_way_around_the_limit(clock):
    """It is not made of the token alone, so that nobody can make that of a token that he guesses."""
    guard, other = Guard(token="right"), Guard(token="right")
    for _ in range(2 * GUESSES):
        assert ask(guard, ("Host", "localhost"), ("Cookie", f"{COOKIE}={other.cookie()}")) == 401
    assert ask(guard, ("Host", "localhost"), ("Cookie", f"{COOKIE}={guard.cookie()}")) == 200
    for _ in range(2 * GUESSES):
        ask(guard, *bearer("wrong"))
    assert ask(guard, ("Host", "localhost"), ("Cookie", f"{COOKIE}={guard.cookie()}")) == 200
