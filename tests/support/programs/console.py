"""A console as a user starts it, and the browser that looks at it."""

import html
import http.client
import os
import re
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Self
from urllib.parse import urlencode, urlsplit

import pytest
from support import needs
from support.forks import Forks

from rillet.console.actions import ACTIONS, plan, run
from rillet.console.connection import GoneError, Link

# `make test` has the browser on Rillet, `make test-console` on each kind of server.
KINDS = ("rillet", *(pytest.param(kind, marks=pytest.mark.browser) for kind in ("redis7", "valkey")))
WIDTH, PHONE = 1320, 375
COLOURS = ("color-contrast", "link-in-text-block")  # the rules of axe that a color scheme can break
# Milliseconds; bounds a broken test only.
PATIENCE = int(os.environ.get("RILLET_CONSOLE_PATIENCE", "60")) * 1000
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# As `python -m rillet`, but what an action did comes on the page that its form leads to, also where that takes longer than a
# second, after which users are shown its progress; and a watch of what clients send lasts longer than its minute.
_CONSOLE = """
import sys
from rillet.__main__ import main
from rillet.console import clients, jobs
jobs.PATIENCE = 60.0
clients.WATCH_SECONDS = 600.0
sys.exit(main())
"""


@cache
def _forks() -> Forks:
    return Forks("rillet.console.serving", "rillet.console.dev")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    def field(self, name: str) -> str:
        """Return the value of a form's field, of several that in the last form: the command that is sent."""
        return html.unescape(re.findall(rf'name="{name}" value="([^"]*)"', self.text)[-1])

    def fields(self, *names: str) -> dict[str, str]:
        return {name: self.field(name) for name in names}


class ConsoleProcess:
    """`rillet console URL`, on a free port; a context manager that ends it by its pid."""

    def __init__(
        self, url: str, *flags: str, verb: str = "console", env: dict[str, str] | None = None
    ) -> None:
        words = ["-c", _CONSOLE, verb, *([url] if url else []), "--console-port", "0", *flags]
        output, its = os.pipe()
        self._program = _forks().start(words, os.getcwd(), its, its, os.environ | (env or {}))  # noqa: PTH109 - a text
        os.close(its)
        self._output = open(output, encoding="utf-8")  # noqa: PTH123, SIM115
        self.lines: list[str] = []
        for line in self._output:
            self.lines.append(line)
            if line.startswith("Console of"):
                break
        else:
            raise RuntimeError(f"the console did not start: {self.lines}")
        self.url = self.lines[-1].split()[-1].rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        # Read on, so that a full pipe never holds it up.
        self._reader = threading.Thread(target=lambda: self.lines.extend(self._output), daemon=True)
        self._reader.start()

    def ask(
        self,
        path: str,
        form: dict[str, str] | None = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
        host: str = "",
    ) -> Answer:
        """Send one request as a program does, without a browser's help."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method or ("GET" if form is None else "POST"), path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            body = urlencode(form).encode() if form is not None else b""
            if form is not None:
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.putheader("Content-Length", str(len(body)))
            for name, text in (headers or {}).items():
                connection.putheader(name, text)
            connection.endheaders(body)
            reply = connection.getresponse()
            return Answer(
                reply.status,
                {name.lower(): text for name, text in reply.getheaders()},
                reply.read().decode("utf-8", "replace"),
            )
        finally:
            connection.close()

    @property
    def status(self) -> int | None:
        return self._program.poll()

    def stop(self) -> str:
        """End it as Ctrl-C does; return all that it printed."""
        self._program.send_signal(signal.SIGINT)
        try:
            self._program.wait(60)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._reader.join(10)
        self._output.close()
        return "".join(self.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def chromium() -> str:
    """Debian's browser without windows, or another one of its kind, or the end of the test."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("RILLET_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not found or needs.none_wanted():
        needs.leave_out("browser")
    return found


def axe() -> str:
    """The accessibility checker, a script for the page."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


class Watched:
    """A page that remembers what went wrong on it, and whom it asked."""

    def __init__(self, browser, console, width=WIDTH, scheme="light"):
        self.context = browser.new_context(
            base_url=console.url, color_scheme=scheme, viewport={"width": width, "height": 900}
        )
        self.context.set_default_timeout(PATIENCE)
        self.wrong, self.hosts = [], set()
        self.page = self.another()
        self.own = urlsplit(console.url).netloc

    def another(self):
        """Open one more page in the same window."""
        page = self.context.new_page()
        page.on(
            "console",
            lambda message: self.wrong.append(message.text) if message.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        return page

    def check(self):
        assert not self.wrong, self.wrong
        assert self.hosts <= {self.own}, self.hosts

    def close(self):
        self.context.close()


def address_of(client):
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def deliver(client, entries=1, key="orders", count=None):
    """Add entries 1-0, 2-0 … and deliver them, or the first few, to Bob of the group billing."""
    pipeline = client.pipeline(transaction=False)
    for number in range(1, entries + 1):
        pipeline.xadd(key, {"n": number}, f"{number}-0")
    pipeline.execute()
    client.xgroup_create(key, "billing", "0")
    client.xreadgroup("billing", "Bob", {key: ">"}, count=count)


def before(link, name, act):
    """Let something happen whenever a link is about to send commands that begin with one of this name."""
    send = link.send

    async def sending(commands):
        if commands[0][0] == name:
            act()
        return await send(commands)

    link.send = sending


async def good_of(url, name, typed):
    """Whether the console says that an action went well; None where the server was gone."""
    async with Link(url) as link:
        link.read_only = False
        try:
            return (await run(link, plan(ACTIONS[name], typed))).good
        except GoneError:
            return None


def scene(client, entries=12):
    """A stream, a group and two consumers, one of which fails with an entry again and again."""
    for number in range(1, entries + 1):
        client.xadd("orders", {"item": "teapot", "data": '{"a": {"b": [1, null, "x"]}}'}, f"{number}-0")
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "Bob", {"orders": ">"}, count=5)
    client.xreadgroup("billing", "Alice", {"orders": ">"}, count=2)
    for _ in range(6):
        client.xclaim("orders", "billing", "Bob", 0, ["1-0"])


def violations(page, *rules):
    """What axe finds wrong with a page, by all its rules or by some."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{axe()}; null")
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        (one["id"], [node["target"] for node in one["nodes"]][:3], one["nodes"][0].get("failureSummary"))
        for one in found["violations"]
    ]
