"""README and docs/running.md claim only what runs: the redis-cli session, the Python, the commands."""

import os
import re
import shlex
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.ports import free_port
from support.programs.readme import (
    README,
    file_for_pytest,
    program,
    redis_cli,
    run_server_block,
    running,
    story,
)
from support.servers import start_server
from support.tls import make_certificates
from support.tool import run_program
from support.until import until

ROOT = Path(__file__).parents[1]
RUNNING = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")


@pytest.fixture
def server():
    server = start_server("rillet", "--appendonly", "yes")
    yield server
    server.discard()


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


def test_the_home_of_the_project_is_named_in_one_place():
    """Where it is not known yet, or moves, one edit changes all."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        urls = tomllib.load(file)["project"]["urls"]
    home = urls["Repository"]
    assert urls["Issues"].startswith(f"{home}/")
    assert urls["Changelog"].startswith(f"{home}/")
    files = run_program("git", "ls-files", cwd=ROOT).stdout.split()
    words = [url.removeprefix("https://").strip("/").encode() for url in (home, urls["Documentation"])]
    naming = [path for path in files if any(word in (ROOT / path).read_bytes() for word in words)]
    assert naming == ["pyproject.toml"]


def test_the_running_server_runs_as_written(tmp_path):
    replies = run_server_block(Path(sys.executable).parent, tmp_path)
    assert replies[1] == "OK\n"
    assert "Sara" in replies[2]
    assert "Bob" in replies[3]
    assert "AOF" in replies[-1]
    assert "is valid" in replies[-1]


def test_the_python_example_runs():
    exec(compile(program(), "README.md", "exec"), {})


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


def test_a_server_with_tls_starts_as_written_and_redis_cli_reaches_it(tmp_path):
    lines = re.search(r"<!-- tls -->\n```sh\n(.*?)```\n<!-- /tls -->", RUNNING, re.DOTALL)[1].splitlines()
    make_certificates(tmp_path)
    start, ask = (shlex.split(line.replace("7443", str(free_port()))) for line in lines)
    ask[2] = start[2]
    with running([Path(sys.executable).parent / start[0], *start[1:]], os.environ, tmp_path):
        said = [run_program(*ask, *words, cwd=tmp_path) for words in (["PING"], ["SHUTDOWN", "NOSAVE"])]
    assert said[0].stdout == "PONG\n", said[0].stderr


def test_the_test_with_the_fixtures_runs(tmp_path):
    application = "class my_application:\n    def run(url):\n        assert url.startswith('redis://')\n\n\n"
    path = tmp_path / "test_example.py"
    path.write_text(file_for_pytest(application), encoding="utf-8")
    done = run_program(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path, cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout


def test_what_the_readme_says_is_not_there_is_not_there(server):
    for line in (
        "ARSET a 0 v", "VADD v VALUES 1 1 e", "HOTKEYS START", "BACKUP LIST", "PFDEBUG ENCODING k", "PFSELFTEST",
        "MODULE LOAD x.so",
    ):  # fmt: skip
        assert redis_cli(server.port, line).startswith("(error)"), line


def test_of_the_commands_of_redis_7_0_only_those_are_missing(server):
    with start_server("redis7") as real:
        theirs, ours = (set(redis_cli(port, "COMMAND LIST").split()) for port in (real.port, server.port))
    missing = {name.strip('"').lower() for name in theirs - ours if name.startswith('"')}
    assert missing == {"pfdebug", "pfselftest"}


def test_the_table_of_neighbours_is_that_of_their_page():
    page = (ROOT / "docs" / "beside-others.md").read_text(encoding="utf-8")
    there, here = (
        re.findall(r"^\| .* \|$", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text), re.MULTILINE)
        for text in (page, README)
    )
    assert len(there) == 11
    assert [line for line in here if line in there] == there


def test_the_fastest_python_is_the_one_that_was_measured():
    [ratios] = re.findall(r"^\| all of them, mean of the ratios \| (.*) \|$", RUNNING, re.MULTILINE)
    [head] = re.findall(
        r"^\| CPU µs, [^|]* \| (.*) \|$", RUNNING.partition("<!-- pythons -->")[2], re.MULTILINE
    )
    assert head.split(" | ") == ["Python 3.11", "Python 3.12", "Python 3.13"]
    first, *others = map(float, ratios.split(" | "))
    assert first == 1.0
    assert all(1.0 <= other <= 1.2 for other in others)
    assert "Python 3.11 is the\nfastest" in README
    least, most = (round((other - 1) * 100) for other in sorted(others))
    assert f"take {least} to {most} % more" in README
