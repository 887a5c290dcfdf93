"""What a server has imported after its start: what a first PING needs, and no room of what few servers use."""

import ast
import subprocess
import sys
from hashlib import sha256

import pytest

PING = """
import asyncio, sys
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
    *"rillet.commands.scripting. rillet.commands.geo. rillet.commands.hyperloglog. rillet.commands.bitmaps.".split(),
    *"rillet.commands.hashes. rillet.commands.keys.migrate rillet.commands.lists. rillet.commands.sets.".split(),
    *"rillet.commands.sorted_sets. rillet.commands.streams. rillet.commands.strings. rillet.server.cluster.".split(),
    *"rillet.server.config.sentinel_settings rillet.server.debugging. rillet.server.sentinel.".split(),
    *"rillet.server.net.busy_script rillet.server.net.migration rillet.server.net.tls".split(),
    *"rillet.testing rillet.pipeline lupa secrets tempfile".split(),
    # Modules of Python and of others, each a third of a megabyte with what it loads.
    *"ctypes hashlib hmac encodings.idna bitarray.util argparse multiprocessing importlib.metadata".split(),
    *"decimal http email".split(),
)
# What a server refers to before it uses it: its place in a cluster, what DEBUG RESET returns to, a time that skips.
REFERRED = {
    "rillet.server.cluster.membership",
    "rillet.server.debugging.virtual_time",
    "rillet.server.debugging.reset",
}


def run(code):
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def loaded():
    return run(PING).split()


def test_a_first_ping_imports_no_room_that_few_servers_use(loaded):
    found = [
        name for name in loaded if name.startswith(UNUSED) and not name.endswith((".specs", ".commands"))
    ]
    assert set(found) <= REFERRED


def test_a_first_ping_imports_the_room_of_ping(loaded):
    assert "rillet.commands.connection.session" in loaded


def test_garbage_is_collected_again_once_the_server_is_there():
    """The command line switches that off while modules are loaded."""
    code = PING.replace("import asyncio", "import gc; gc.disable(); import asyncio", 1).replace(
        "print(*sorted(sys.modules))", "print(gc.isenabled())"
    )
    assert run(code).split()[-1] == "True"


def test_a_start_looks_up_no_address_and_so_makes_no_threads():
    code = PING.replace("print(*sorted(sys.modules))", "import os; print(len(os.listdir('/proc/self/task')))")
    assert run(code).split()[-1] == "1"


def test_the_allocator_is_tuned_once_a_reply_may_have_been_big():
    big = r'writer.write(b"*2\r\n$4\r\nPING\r\n$200000\r\n" + b"x" * 200_000 + b"\r\n"); await reader.readexactly(200_011)'
    look = "server.cron.step(); print(server.cron._allocator_tuned, 'ctypes' in sys.modules)"
    code = PING.replace("print(*sorted(sys.modules))", f"{look}; {big}; {look}")
    assert run(code).splitlines()[-2:] == ["False False", "True True"]


NO_FILES = """
import resource
async def ask():
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.config.port)

    async def call(line):
        writer.write(line + b"\\r\\n")
        return (await reader.readline()).strip().decode()

    lines = LINES
    await call(b"PING")
    await call(BEFORE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    without = [await call(line) for line in lines]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(without, [await call(line) for line in lines], sep=chr(10))
    server.stop()
"""


def without_files(*lines, before=b"PING"):
    """The first lines of the replies while no file descriptor is free, and once there are some again."""
    head, _, rest = PING.partition("async def ask():")
    tail = rest[rest.index("server = server_of") :]
    code = head + NO_FILES.replace("LINES", repr(lines)).replace("BEFORE", repr(before)) + tail
    return [ast.literal_eval(line) for line in run(code).splitlines() if line.startswith("[")]


CANNOT_LOAD = (
    "-ERR can't load the command now, perhaps for want of open files; the server's log has the reason"
)


def test_a_first_command_without_free_descriptors_is_an_error_until_there_are_some():
    """Its modules cannot be read then."""
    without, later = without_files(b"XLEN s", b"PFCOUNT h", b"PING")
    assert without == [CANNOT_LOAD, CANNOT_LOAD, "+PONG"]
    assert later == [":0", ":0", "+PONG"]


def test_a_first_script_without_free_descriptors_is_an_error_until_there_are_some():
    without, later = without_files(b"EVAL return(1) 0")
    assert (without, later) == ([CANNOT_LOAD], [":1"])


def test_clients_log_in_without_free_descriptors():
    """The modules for passwords are there once a user has one."""
    hashed = sha256(b"p").hexdigest().encode()
    without, _ = without_files(b"AUTH u p", b"AUTH u q", before=b"ACL SETUSER u on #" + hashed)
    assert without == ["+OK", "-WRONGPASS invalid username-password pair or user is disabled."]
