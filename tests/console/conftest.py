"""Servers, consoles and the browser for the tests of the console."""

from contextlib import contextmanager

import pytest
import redis
from playwright.sync_api import expect, sync_playwright
from support import servers
from support.programs.console import (
    CHROMIUM_FLAGS,
    KINDS,
    PATIENCE,
    ConsoleProcess,
    Watched,
    address_of,
    chromium,
)

from rillet.console.connection import Link

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser():
    """One for a module, whose tests are sync: Playwright's own loop and that of pytest-asyncio exclude each other."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        yield started
        started.close()


@contextmanager
def served(kind):
    """A server and its console."""
    flags = ("--enable-debug-command", "local") if kind == "rillet" else ()
    writes = () if kind == "rillet" else ("--allow-writes",)
    with (
        servers.start_server(kind, *flags) as server,
        ConsoleProcess(f"redis://127.0.0.1:{server.port}", *writes) as console,
    ):
        yield server, console


@pytest.fixture(scope="module")
def consoles():
    with servers.on_demand(served) as get:
        yield get


@pytest.fixture(params=KINDS)
def console(request, consoles):
    server, console = consoles(request.param)
    with redis.Redis(port=server.port) as client:
        client.flushall()
        console.client, console.kind = client, request.param
        yield console


@pytest.fixture
def opened(browser):
    found = []

    def open_(console, path="/", **options):
        watched = Watched(browser, console, **options)
        found.append(watched)
        watched.page.goto(path)
        return watched.page

    yield open_
    for watched in found:
        watched.check()
        watched.close()


@pytest.fixture(params=["rillet", "redis7", "valkey"])
def kind(request):
    return request.param


@pytest.fixture
def client(kind, running):
    """A client of a server of each kind, which is empty."""
    with redis.Redis(port=running(kind).port, client_name="test") as connected:
        connected.flushall()
        yield connected


@pytest.fixture
async def link(client):
    """The console's own connection to that server."""
    async with Link(address_of(client)) as made:
        yield made
