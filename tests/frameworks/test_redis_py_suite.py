"""redis-py's own tests, which come with its source: what passes on redis-server passes on Rillet."""

import re
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.programs.frameworks import python_environment, source_distribution
from support.proxies import proxied
from support.servers import start_server
from support.tool import run_program

ENVIRONMENT = "redis_py_suite"
# All that is about a server, as far as it needs neither modules nor a cluster, sentinels or a second server.
FILES = """
    test_cache.py test_client.py test_command_parser.py test_commands.py test_connect.py test_connection.py
    test_connection_pool.py test_encoding.py test_function.py test_hash.py test_himport_integration.py
    test_keyspace_notifications.py test_lock.py test_monitor.py test_multiprocessing.py test_pipeline.py test_pubsub.py
    test_scripting.py
    test_asyncio/test_client.py test_asyncio/test_command_parser.py test_asyncio/test_commands.py
    test_asyncio/test_connect.py test_asyncio/test_connection.py test_asyncio/test_connection_pool.py
    test_asyncio/test_encoding.py test_asyncio/test_hash.py test_asyncio/test_himport_integration.py
    test_asyncio/test_keyspace_notifications.py test_asyncio/test_lock.py test_asyncio/test_monitor.py
    test_asyncio/test_pipeline.py test_asyncio/test_pubsub.py test_asyncio/test_scripting.py
    test_asyncio/test_usage_counter.py
""".split()
LEFT_OUT = "redismod onlycluster ssl replica cp_integration multidb_integration".split()
# What asks for commands that Rillet leaves out, by Rillet and the real server of its version: it must fail.
NOT_THERE = {
    ("rillet-7.0", "redis7"): re.compile(r"(?!)"),  # nothing
    ("rillet", "redis810"): re.compile(r"\.test_(hotkeys_|ar(?!bitrary_)[a-z]+_)"),
    ("redis810 behind a proxy", "redis810"): re.compile(r"(?!)"),
}
SECONDS = 2400


def outcomes(kind: str, protocol: int, folder: Path, files: list[str]) -> dict[str, str]:
    """What became of each test: "passed", "pytest.skip", "pytest.xfail", "failure" or "error"."""
    report = folder / f"{kind}.xml"
    name, *behind = kind.split(" behind ")
    with (
        start_server(name, "--enable-debug-command", "yes") as server,
        proxied(server.port) if behind else nullcontext(server.port) as port,
    ):
        done = run_program(
            python_environment(ENVIRONMENT) / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-W", "ignore", "--timeout", "60", "--tb", "native", "-m", " and ".join(f"not {mark}" for mark in LEFT_OUT),
            "--redis-url", f"redis://127.0.0.1:{port}/9", "--protocol", protocol,
            "--junitxml", report, *(f"tests/{file}" for file in files),
            seconds=SECONDS, cwd=source_distribution(ENVIRONMENT, "redis"),
        )  # fmt: skip
    assert done.returncode in {0, 1}, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return {
        f"{case.get('classname')}.{case.get('name')}": next(
            (
                found.get("type") if found.tag == "skipped" else found.tag
                for found in case
                if found.tag in {"skipped", "failure", "error"}
            ),
            "passed",
        )
        for case in ET.parse(report).iter("testcase")
    }


def is_in(file: str, test: str) -> bool:
    return test.startswith(f"tests.{file.removesuffix('.py').replace('/', '.')}.")


@pytest.mark.frameworks
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(("mine", "real"), NOT_THERE)
def test_what_passes_on_redis_server_passes_here(mine, real, protocol, tmp_path):
    there, here = (outcomes(kind, protocol, tmp_path, FILES) for kind in (real, mine))
    passed = {test for test, outcome in there.items() if outcome == "passed"}
    assert len(passed) > 2000
    not_there = {test for test in passed if NOT_THERE[mine, real].search(test)}
    # A few of them only read what the client itself refuses.
    assert bool(not_there) == (mine == "rillet")
    assert sum(here[test] == "failure" for test in not_there) >= 0.9 * len(not_there)

    def failures(tests):
        # Its authors do not rely on those marked xfail: sometimes they pass.
        return {test for test in tests if here.get(test) not in {"passed", "pytest.xfail"}}

    failed = failures(passed - not_there)
    if failed:  # some measure time, which proves little on a busy machine: what counts fails twice
        again = [file for file in FILES if any(is_in(file, test) for test in failed)]
        here = outcomes(mine, protocol, tmp_path, again)
        failed = failures(failed)
    assert failed == set()
