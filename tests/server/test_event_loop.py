"""Where uvloop is not installed (Windows) asyncio's own loop serves."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["uvloop"] = None
import rillet.testing
with rillet.testing.Server(appendonly=True, transport="tcp") as server:
    client = server.client()
    client.xadd("s", {"a": "b"}, id="1-0")
    client.xgroup_create("s", "g", "0")
    print(client.xreadgroup("g", "c", {"s": ">"}, block=100))
    print(client.info("server")["multiplexing_api"])
"""


def test_a_server_runs_on_asyncio_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["[[b's', [(b'1-0', {b'a': b'b'})]]]", "asyncio"]
