"""README and docs/running.md claim only what runs: the redis-cli session, the Python, the commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.servers import start_server
from support.until import until

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUNNING = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")


def story() -> list[tuple[str, str]]:
    text = re.search(r"<!-- story -->\n```\n(.*?)```\n<!-- /story -->", README, re.DOTALL)
    steps = re.split(r"^> ", text[1], flags=re.MULTILINE)[1:]
    return [tuple(step.split("\n", 1)) for step in steps]


@pytest.fixture
def server():
    server = start_server("rillet", "--appendonly", "yes")
    yield server
    server.discard()


def redis_cli(port: int, line: str) -> str:
    """What an interactive redis-cli prints for one line."""
    done = subprocess.run(
        ["redis-cli", "--no-raw", "-p", str(port)],
        input=line + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def test_the_story_of_bob_and_alice_happens_as_written(server):
    for line, expected in story():
        assert redis_cli(server.port, line) == expected, line
    pending = "XPENDING mystream mygroup - + 10"
    before = redis_cli(server.port, pending).splitlines()
    server.restart()
    after = redis_cli(server.port, pending).splitlines()
    for lines in (before, after):
        assert lines[0] == '1) 1) "1526569498055-0"'
        assert lines[1].strip() == '2) "Alice"'
        assert lines[3].strip() == "4) (integer) 2"


def test_it_is_short():
    assert len(README.splitlines()) <= 200


def test_its_links_are_absolute_and_those_to_the_repository_lead_somewhere():
    """So that they work on the page of the package index as well."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        repository = tomllib.load(file)["project"]["urls"]["Repository"]
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    assert [link for link in links if not link.startswith("https://")] == []
    raw = repository.replace("github.com", "raw.githubusercontent.com")
    ours = [re.sub(rf"^({repository}/blob/main|{raw}/main)/", "", link) for link in links]
    paths = [path for path in ours if not path.startswith("https://")]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_running_server_runs_as_written(tmp_path):
    """The first line starts the server, the others are typed beside it; another folder and a free port are taken."""
    block = re.search(r"<!-- server -->\n```sh\n(.*?)```\n<!-- /server -->", README, re.DOTALL)[1]
    start, *lines = block.replace("/tmp/rillet", str(tmp_path)).splitlines()
    scripts = Path(sys.executable).parent
    variables = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    assert start.startswith("rillet --port 7000 ")
    words = shlex.split(start.replace("7000", "0"))
    with subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True) as process:
        port = ""
        for said in process.stdout:
            port = re.search(r"port=(\d+)", said)[1] if "port=" in said else port
            if "Ready to accept" in said:
                break
        replies = []
        for line in lines:
            done = subprocess.run(
                ["sh", "-c", line.replace("7000", port)],
                env=variables, capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            replies.append(done.stdout)
            if line.endswith("SHUTDOWN"):
                process.stdout.read()
                assert process.wait(60) == 0
    assert replies[1] == "OK\n"
    assert "Sara" in replies[2]
    assert "Bob" in replies[3]
    assert "AOF" in replies[-1]
    assert "is valid" in replies[-1]


def test_the_python_example_runs():
    example = next(
        block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import rillet" in block
    )
    exec(compile(example, "README.md", "exec"), {})


def test_the_chain_of_replicas_stands():
    text = re.search(r"<!-- replication -->\n```sh\n(.*?)```\n<!-- /replication -->", RUNNING, re.DOTALL)
    ports: dict[str, str] = {}
    with ExitStack() as stack:
        for line in text[1].splitlines():
            name, _, port, *flags = shlex.split(line)
            kind = "rillet" if name == "rillet" else "redis7"
            flags = [ports.get(flag, flag) for flag in flags]
            last = stack.enter_context(start_server(kind, "--repl-diskless-sync-delay", "0", *flags))
            ports[port] = str(last.port)
        first = int(next(iter(ports.values())))
        assert redis_cli(first, "XADD s 1-0 a b") == '"1-0"\n'
        until(lambda: redis_cli(last.port, "XLEN s") == "(integer) 1\n")
        assert redis_cli(first, "WAIT 1 10000") == "(integer) 1\n"


def test_the_test_with_the_fixtures_runs(tmp_path):
    example = next(
        block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def test_" in block
    )
    application = "class my_application:\n    def run(url):\n        assert url.startswith('redis://')\n\n\n"
    path = tmp_path / "test_example.py"
    path.write_text(application + example, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout, done.stdout


def test_what_the_readme_says_is_not_there_is_not_there(server):
    for line in (
        "ARSET a 0 v",
        "VADD v VALUES 1 1 e",
        "HOTKEYS START",
        "BACKUP LIST",
        "PFDEBUG ENCODING k",
        "PFSELFTEST",
        "MODULE LOAD x.so",
    ):
        assert redis_cli(server.port, line).startswith("(error)"), line


def test_of_the_commands_of_redis_7_0_only_those_are_missing(server):
    with start_server("redis7") as real:
        theirs, ours = (set(redis_cli(port, "COMMAND LIST").split()) for port in (real.port, server.port))
    missing = {name.strip('"').lower() for name in theirs - ours if name.startswith('"')}
    assert missing == {"pfdebug", "pfselftest"}
