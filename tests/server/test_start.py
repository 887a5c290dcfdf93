"""What a server has imported after its start: what a first PING needs, and no room of what few servers use."""

from __future__ import annotations

import subprocess
import sys

import pytest

PING = """
import asyncio, re, sys
from rillet.server.config.config import Config
from rillet.server.process import server_of_this_process

async def ask():
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.config.port)
    writer.write(b"PING\\r\\n")
    assert await reader.readline() == b"+PONG\\r\\n"
    print(*sorted(sys.modules))
    server.stop()

server = server_of_this_process(Config(port=0, bind=("127.0.0.1",), save=(), loglevel="nothing"))
tasks = []
server.run(lambda: tasks.append(asyncio.ensure_future(ask())))
"""

# Rooms by the start of their names; their records (``specs``) are always there.
UNUSED = (
    "rillet.commands.scripting.",
    "rillet.commands.sentinel.",
    "rillet.commands.geo.",
    "rillet.commands.hyperloglog.",
    "rillet.commands.bitmaps.",
    "rillet.commands.debug.",
    "rillet.commands.hashes.",
    "rillet.commands.keys.migrate",
    "rillet.commands.lists.",
    "rillet.commands.sets.",
    "rillet.commands.sorted_sets.",
    "rillet.commands.streams.",
    "rillet.commands.strings.",
    "rillet.commands.cluster.",
    "rillet.server.cluster.",
    "rillet.server.debugging.",
    "rillet.server.sentinel.",
    "rillet.server.net.busy_script",
    "rillet.server.net.migration",
    "rillet.server.net.tls",
    "rillet.testing",
    "rillet.pipeline",
    "lupa",
    "secrets",
    "tempfile",
)
# What a server refers to before it uses it: its place in a cluster, and what DEBUG RESET returns to.
REFERRED = {
    "rillet.commands.cluster.membership",
    "rillet.server.debugging.reset",
}


@pytest.fixture(scope="module")
def loaded():
    done = subprocess.run(
        [sys.executable, "-c", PING], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_a_first_ping_imports_no_room_that_few_servers_use(loaded):
    found = [name for name in loaded if name.startswith(UNUSED) and not name.endswith(".specs")]
    assert set(found) <= REFERRED


def test_a_first_ping_imports_the_room_of_ping(loaded):
    assert "rillet.commands.connection.session" in loaded


def test_garbage_is_collected_again_once_the_server_is_there():
    """The command line switches that off while modules are loaded."""
    code = PING.replace("import asyncio", "import gc; gc.disable(); import asyncio", 1).replace(
        "print(*sorted(sys.modules))", "print(gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split()[-1] == "True"
