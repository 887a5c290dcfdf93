"""What a first test does not import; each module costs it a millisecond."""

import sys

from support.programs.pytest_run import run_tests
from support.tool import run_program

FIRST_TEST = """
import sys
import rillet.testing
with rillet.testing.Server() as server:
    server.watch()
    server.reset()
    with server.client_of_test() as client:
        client.set("k", "v")
        client.xadd("s", {"f": "v"})
print(*sys.modules)
"""

UNNEEDED = (
    *("history", "streams", "report", "seeds", "cluster", "sentinel", "loop_server"),
    *("memory_transport_in_loop", "simulating", "fault_in_turn"),
)
UNUSED_WITHOUT_FILES = """
    debugging.commands.structures debugging.snapshots execution.failure_recovery persistence.aof_replay
    persistence.background_writer replication.master_link replication.snapshot_sender
""".split()


def test_a_first_test_imports_nothing_that_it_does_not_need():
    loaded = set(run_program(sys.executable, "-c", FIRST_TEST).stdout.split())
    assert "rillet.testing.server" in loaded
    assert not {f"rillet.testing.{name}" for name in UNNEEDED} & loaded
    assert (
        not {"rillet.pipeline", "rillet.console", "rillet.server.sentinel.monitor", "lupa", "pytest"} & loaded
    )
    assert not [each for each in loaded if each.startswith("rillet.commands.scripting.lua")]
    # A server without files and replicas has no use for these.
    assert not [
        each
        for each in loaded
        if each.startswith(("rillet.storage.codecs", "rillet.storage.rdb", "rillet.storage.aof"))
    ]
    assert not {f"rillet.server.{name}" for name in UNUSED_WITHOUT_FILES} & loaded
    assert "sortedcontainers" not in loaded
    assert (
        not {"rillet.commands.strings.lcs", "rillet.commands.streams.xinfo", "anycrc", "fractions"} & loaded
    )


def test_neither_does_a_first_test_with_a_fixture(tmp_path):
    code = """
import gc, sys
def test_it(rillet):
    rillet.set("k", "v")
    assert gc.isenabled()
    unneeded = {"remote", "proxy", "proxying", "report", *%r}
    assert not {f"rillet.testing.{name}" for name in unneeded} & {*sys.modules}
"""
    run_tests(tmp_path, code % (UNNEEDED,)).outcome(passed=1)


def test_pytest_does_not_compile_the_server_once_more(tmp_path):
    # pytest itself marks a package whose plugin was installed as a wheel.
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('rillet.server', 'rillet.testing')\n"
    )
    run_tests(
        tmp_path,
        """
        import sys
        from importlib.machinery import SourceFileLoader

        def test_it(rillet):
            assert rillet.ping()
            for name in ("rillet.testing.server", "rillet.server.server"):
                assert isinstance(sys.modules[name].__spec__.loader, SourceFileLoader)
        """,
    ).outcome(passed=1)
