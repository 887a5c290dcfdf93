"""What a first test does not import; each module costs it a millisecond."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_first_test_imports_nothing_that_it_does_not_need():
    done = subprocess.run(
        [sys.executable, "-c", FIRST_TEST], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert "rillet.testing.server" in loaded
    unneeded = {
        "history",
        "streams",
        "report",
        "cluster",
        "sentinel",
        "loop_server",
        "in_memory",
        "simulated",
        "fault_in_turn",
    }
    assert not {f"rillet.testing.{name}" for name in unneeded} & loaded
    assert (
        not {"rillet.pipeline", "rillet.console", "rillet.server.sentinel.monitor", "lupa", "pytest"} & loaded
    )
