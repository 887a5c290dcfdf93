"""What clients do when a command of theirs is hit by a fault: the table of docs/testing/faults.md, measured."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.retry import Retry
from support.live import LiveServer
from support.programs.clients import run_node

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "faults.md"
ROW = re.compile(r"^\| `(.+?)` \|(.+)\|$", re.MULTILINE)
TIMEOUT = 0.3
WORDS = {
    "reply_bytes=5": ["REPLY-BYTES", "5"],
    "silence=True": ["SILENCE"],
    "slow=(10, 0.005)": ["SLOW", "10", "5"],
    "delay=0.05": ["DELAY", "50"],
}


def table() -> dict[str, list[str]]:
    """The rows of the page by what the fault does, a cell for each client."""
    text = PAGE.read_text(encoding="utf-8").partition("## What clients do")[2].partition("\n## ")[0]
    return {found[1]: [cell.strip() for cell in found[2].split("|")] for found in ROW.finditer(text)}


def words_of(option: str) -> list[str]:
    """The words of DEBUG FAULT ADD for an option of `Server.fault`."""
    if option in WORDS:
        return WORDS[option]
    name, _, value = option.partition("=")
    return [name.upper(), value.strip('"')]


def cell(outcome: str, sent: int, stored: int) -> str:
    """What one client did."""
    return f"{outcome}, {sent} sent, {stored} stored"


def column(at: int) -> dict[str, str]:
    return {option: cells[at] for option, cells in table().items()}


@pytest.fixture
def server():
    with LiveServer() as server, server.client() as client:
        client.execute_command("DEBUG", "CONTROL")
        server.control = client
        yield server


class Trial:
    """A fault for the first XADD on an empty stream, and what the client that sends it makes of it."""

    def __init__(self, server: LiveServer, option: str) -> None:
        self.control = server.control
        self.words = words_of(option)

    def __enter__(self) -> Self:
        self.control.delete("s")
        self.id = self.control.execute_command(
            "DEBUG", "FAULT", "ADD", "COMMAND", "XADD", "FIRST", 1, *self.words
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.control.execute_command("DEBUG", "FAULT", "CLEAR", self.id)

    def result(self, outcome: str) -> str:
        [[_, _, sent, hit, _]] = self.control.execute_command("DEBUG", "FAULT", "LIST", self.id)
        assert hit == 1
        return cell(outcome, sent, self.control.xlen("s"))


def measured_sync(server: LiveServer, retry: Retry | None) -> dict[str, str]:
    found = {}
    for option in table():
        with server.client(socket_timeout=TIMEOUT, retry=retry) as client, Trial(server, option) as trial:
            try:
                client.xadd("s", {"f": "v"})
            except redis.RedisError as error:
                found[option] = trial.result(type(error).__name__)
            else:
                found[option] = trial.result("ok")
    return found


async def measured_async(server: LiveServer) -> dict[str, str]:
    found = {}
    for option in table():
        retry = redis.asyncio.retry.Retry(NoBackoff(), 3)
        async with server.async_client(socket_timeout=TIMEOUT, retry=retry) as client:
            with Trial(server, option) as trial:
                try:
                    await client.xadd("s", {"f": "v"})
                except redis.RedisError as error:
                    found[option] = trial.result(type(error).__name__)
                else:
                    found[option] = trial.result("ok")
    return found


def measured_node(server: LiveServer, library: str) -> dict[str, str]:
    faults = {option: words_of(option) for option in table()}
    done = run_node("faults.js", server.port, library, json.dumps(faults))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()[:-1]]
    return {option: cell(outcome, sent, stored) for option, sent, stored, outcome in lines}


def check(measure: Callable[[], dict[str, str]], at: int) -> None:
    """Compare a column with what is measured, again where a pause of the machine was longer than the clients' timeout."""
    found = measure()
    for _ in range(3):
        if found != column(at):
            found = measure()
    assert found == column(at)


def test_the_table_has_every_usual_error_and_each_other_kind():
    assert len(table()) == 17
    assert {len(cells) for cells in table().values()} == {4}


def test_redis_py_without_retries(server):
    check(lambda: measured_sync(server, None), 0)


def test_redis_py_with_retries(server):
    check(lambda: measured_sync(server, Retry(NoBackoff(), 3)), 1)


def test_redis_py_with_retries_in_asyncio(server):
    check(lambda: asyncio.run(measured_async(server)), 1)


@pytest.mark.parametrize(("library", "at"), [("ioredis", 2), ("redis", 3)])
def test_clients_of_node(server, library, at):
    check(lambda: measured_node(server, library), at)


def test_redis_cli_reaches_faults(server):
    cli = [shutil.which("redis-cli"), "-p", str(server.port)]

    def run(*words: str) -> str:
        return subprocess.run([*cli, *words], capture_output=True, text=True, check=True).stdout

    number = run("DEBUG", "FAULT", "ADD", "COMMAND", "SET", "KEY", "user:*", "ERROR", "LOADING").strip()
    assert run("SET", "user:1", "a") == "LOADING Redis is loading the dataset in memory\n\n"
    assert run("SET", "other", "a") == "OK\n"
    assert run("DEBUG", "FAULT", "CLEAR", number).startswith(
        f"{number}\nCOMMAND\nSET\nKEY\nuser:*\nERROR\nLOADING\n1\n1\n"
    )
    assert run("SET", "user:1", "a") == "OK\n"
    assert "CLOSE after" in run("DEBUG", "FAULT", "HELP")
