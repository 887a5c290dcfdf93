"""Ctrl-C at any moment: the end has the log lines of a shutdown, and costs no data that is on the disk."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys

import pytest
from support.live import eventually
from support.servers import start_server

import rillet.testing

BYE = "Rillet is now ready to exit, bye bye..."

# A request to end at the moment at which the process calls its n-th function, imports its n-th module, or logs a
# line with a text, and `then` calls later a second one. All of it happens in the main thread, as with a real signal.
PROGRAM = """
import signal, sys
kind, when, then = sys.argv[1:4]
del sys.argv[1:4]
left = [int(when) if when.isdigit() else 1] + ([int(then)] if int(then) else [])

def count(*_):
    left[0] -= 1
    if not left[0]:
        del left[0]
        if left:
            sys.setprofile(count)
        else:
            sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

def note_import(event, _arguments):
    if left and event == "import" and kind == "import":
        count()

def note_line(self, level, text, details=""):
    write(self, level, text, details)
    if when in text and left or "Ready to accept" in text and len(left) == 1 and kind == "import":
        left[0] = 1  # a start that has fewer imports ends at its last line
        count()

from rillet.__main__ import main
if kind == "call":
    sys.setprofile(count)
else:
    from rillet.server.log import Log
    write, Log._write = Log._write, note_line
    sys.addaudithook(note_import)
sys.exit(main())
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a dump file of a thousand keys."""
    folder = tmp_path_factory.mktemp("saved")
    with rillet.testing.Server(dir=folder, save="3600 1") as server:
        client = server.client()
        client.mset({f"k{number}": "v" for number in range(1000)})
        client.save()
    return folder / "dump.rdb"


@pytest.fixture
def start(saved, tmp_path):
    """Run a server with those keys until it ends; gives its status and its output, the keys must be there still."""

    def run(kind, when, then=0, *flags):
        shutil.copy(saved, tmp_path / "dump.rdb")
        command = [sys.executable, "-c", PROGRAM, kind, str(when), str(then), "--port", "0", *flags]
        done = subprocess.run(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
        )  # fmt: skip
        with rillet.testing.Server(dir=tmp_path, save="3600 1") as server:
            assert server.client().dbsize() == 1000
        return done.returncode, done.stdout

    return run


LINES = [
    "Rillet is starting",
    "Rillet version=",
    "Running mode=",
    "Server initialized",
    "Done loading RDB",
    "DB loaded from disk",
    "The data will be saved to",
    "Ready to accept connections",
]


@pytest.mark.parametrize("line", LINES)
def test_ctrl_c_at_a_line_of_the_start_ends_in_order(start, line):
    status, output = start("line", line)
    assert status == 0, output
    assert "Traceback" not in output
    assert output.index("scheduling shutdown") < output.index("User requested shutdown") < output.index(BYE)


@pytest.mark.parametrize("number", [1, 2, *random.Random(23).sample(range(3, 300), 4)])
def test_ctrl_c_at_any_import_ends_in_order(start, number):
    status, output = start("import", number)
    assert (status, "Traceback" in output) == (0, False), output
    assert BYE in output


@pytest.mark.parametrize("number", [10, *random.Random(7).sample(range(10, 60_000), 6)])
def test_ctrl_c_at_any_call_ends_in_order(start, number):
    status, output = start("call", number)
    assert (status, "Traceback" in output) == (0, False), output
    assert BYE in output


@pytest.mark.parametrize("calls", [1, 3, 20, 150])
def test_a_second_ctrl_c_ends_at_once(start, calls):
    """The status says whether the first one had come to its end."""
    status, output = start("line", "Ready to accept connections", calls)
    assert "Traceback" not in output
    assert status == (1 if "You insist... exiting now." in output else 0), output
    assert status == 1 or BYE in output


def test_a_stop_during_the_start_runs_no_part_of_it_in_vain(start):
    _, output = start("line", "Running mode=")
    assert "Done loading" not in output
    assert "Saving the final RDB snapshot" not in output


def test_the_log_file_has_the_end_of_an_early_stop(start, tmp_path):
    """The log file is known once the directives are read."""
    status, output = start("import", "150", 0, "--logfile", str(tmp_path / "log"))
    assert (status, BYE in output) == (0, False)
    assert BYE in (tmp_path / "log").read_text()


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_the_end_is_announced_before_the_data_is_saved_for_it(kind):
    with start_server(kind, "--save", "3600 1", "--appendonly", "yes") as server:
        status, log = end(server)
    assert status == 0
    lines = [
        "scheduling shutdown",
        "User requested shutdown...",
        "Saving the final RDB",
        "DB saved on disk",
        "bye bye...",
    ]
    places = [log.index(line) for line in lines]
    assert places == sorted(places), log
    assert log.count("User requested shutdown...") == 1


# Where the data cannot be saved


def end(server) -> tuple[int, str]:
    server._process.send_signal(signal.SIGINT)
    return server._process.wait(60), server.log


@pytest.fixture
def homeless(tmp_path):
    """A server whose folder is gone."""
    folder = tmp_path / "gone"
    folder.mkdir()
    with start_server("rillet", "--save", "3600 1", "--dir", folder, folder=tmp_path) as server:
        shutil.rmtree(folder)
        yield server


def test_ctrl_c_ends_a_server_that_has_nothing_to_lose(homeless):
    status, log = end(homeless)
    assert status == 0
    assert (
        "The data could not be saved: 0 changes since the last save are lost. Exiting with status 0." in log
    )
    assert BYE in log


def test_ctrl_c_says_what_is_lost_and_with_which_status_it_ends(homeless):
    with homeless.wire() as wire:
        wire.call("SET", "a", "1")
        wire.call("SET", "b", "2")
    status, log = end(homeless)
    assert status == 1
    assert (
        "The data could not be saved: 2 changes since the last save are lost. Exiting with status 1." in log
    )
    assert BYE in log


def test_as_in_redis_a_server_that_must_save_stays(homeless):
    """With `shutdown-on-sigint save`, and at SIGTERM."""
    with homeless.wire() as wire:
        wire.call("CONFIG", "SET", "shutdown-on-sigint", "save")
        for number in (signal.SIGINT, signal.SIGTERM):
            homeless._process.send_signal(number)
            eventually(
                lambda name=number.name: re.search(f"{name}(.|\n)*Errors trying to shut down", homeless.log)
            )
        assert wire.call("PING").value == b"PONG"


# Where the data will be saved


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "The data will be saved to {}/dump.rdb"),
        (["--appendonly", "yes"], "The data will be saved to {0}/appendonlydir and {0}/dump.rdb"),
        (["--appendonly", "yes", "--save", ""], "The data will be saved to {}/appendonlydir"),
        (["--save", ""], "The data will not be saved: there is no append-only file and no save point"),
    ],
)
def test_the_start_says_where_the_data_will_be_saved(tmp_path, flags, said):
    lines = []
    command = [sys.executable, "-m", "rillet", "--port", "0", *flags]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines.append(line)
            if "Ready to accept" in line:
                process.terminate()
    assert any(line.endswith(f"* {said.format(tmp_path)}\n") for line in lines), lines


def test_the_start_warns_of_a_folder_that_is_not_writable(monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    with rillet.testing.Server(dir=tmp_path, save="3600 1") as server:
        assert f"The folder {tmp_path} is not writable: saving the data will fail" in server.log.text()
