"""Ctrl-C at any moment: the end has the log lines of a shutdown, and costs no data that is on the disk."""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.live import eventually
from support.ports import free_port
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
    *("Rillet is starting", "Rillet version=", "Running mode=", "Server initialized", "Done loading RDB"),
    *("DB loaded from disk", "The data will be saved to", "Ready to accept connections"),
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


def test_nothing_of_rillet_is_loaded_before_ctrl_c_is_handled():
    """What Python itself loads is loaded before, and `enum` is what the module `signal` would load."""
    program = """
import sys
import _signal
def handle(number, handler):
    print(*sorted(set(sys.modules) - before))
    sys.exit()
_signal.signal = handle
before = set(sys.modules)
from rillet.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["gc", "rillet", "rillet.__main__"]


# Real signals at real moments, from the first handler on.

NOTE = """
import _signal, contextlib, os
install = _signal.signal
def note(number, handler):
    kept = install(number, handler)
    if number == _signal.SIGINT:
        with contextlib.suppress(OSError):  # in a child process
            os.write(int(os.environ["HANDLED"]), b".")
    return kept
_signal.signal = note
"""
SCRIPT = Path(sys.executable).with_name("rillet")


def interrupted(words, folder, moment: float, times: int = 1) -> tuple[int, str]:
    """Start a program, send Ctrl-C that many seconds after it handles it, and return its status and output."""
    (folder / "sitecustomize.py").write_text(NOTE)
    seen, handled = os.pipe()
    variables = os.environ | {"PYTHONPATH": str(folder), "HANDLED": str(handled)}
    with subprocess.Popen(
        words, cwd=folder, env=variables, pass_fds=[handled], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:  # fmt: skip
        os.close(handled)
        assert os.read(seen, 1) == b"."
        os.close(seen)
        time.sleep(moment)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        output = process.stdout.read()
    return process.returncode, output


MOMENTS = 0, 0.02, 0.05, 0.1, 0.2  # seconds; a start takes about 0.15


@pytest.mark.parametrize("words", [[sys.executable, "-m", "rillet"], [SCRIPT]], ids=["module", "script"])
def test_ctrl_c_at_many_moments_of_the_start_ends_in_order(words, tmp_path):
    for moment in MOMENTS:
        status, output = interrupted([*words, "--port", "0"], tmp_path, moment)
        assert (status, "Traceback" in output) == (0, False), (moment, output)
        assert output.rstrip().endswith(BYE), (moment, output)


@pytest.mark.parametrize("tool", ["dev", "console", "top", "cluster", "pipeline"])
def test_ctrl_c_at_the_start_of_a_tool_prints_no_traceback(tool, tmp_path):
    more = {
        "dev": ["--port", str(free_port()), "--console-port", "0"],
        "console": ["redis://127.0.0.1:1", "--console-port", "0"],
        "top": ["redis://127.0.0.1:1"],
        "cluster": [],
        "pipeline": ["doctor", "--port", "1"],
    }[tool]
    for moment in MOMENTS:
        status, output = interrupted([SCRIPT, tool, *more], tmp_path, moment)
        # Tools that find no server may have ended by themselves, or be about to: then the signal ends the process.
        assert status in ({0, 1, 130, -2} if tool in {"console", "pipeline", "top"} else {0, 130}), (moment, output)  # fmt: skip
        assert "Traceback" not in output, (moment, output)
        if tool == "dev":
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", int(more[1]))) != 0, "its server is still there"


def test_ctrl_c_within_a_callback_of_pythons_ends_a_tool_all_the_same():
    program = """
import os, signal, sys, time, weakref
from rillet.__main__ import _use
def tool(words):
    lock = type("Lock", (), {})()
    end = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del lock
    time.sleep(3600)
sys.exit(_use(tool, []))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_a_class_is_made_ends_a_tool_all_the_same():
    program = """
import signal, sys
from rillet.__main__ import _use
class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)
sys.exit(_use(lambda words: type("Plan", (), {"steps": Field()}), []))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_rillet_dev_leaves_no_server_behind_when_it_ends_while_that_one_starts(number, tmp_path):
    with subprocess.Popen(
        [SCRIPT, "dev", "--port", "0", "--console-port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        eventually(children.read_text)
        [child] = children.read_text().split()
        eventually(lambda: b"rillet" in Path(f"/proc/{child}/cmdline").read_bytes())
        process.send_signal(number)
        output = process.stdout.read().decode()
    assert process.returncode in {0, 130}, output
    assert "Traceback" not in output
    assert not Path(f"/proc/{child}").exists()


def test_ctrl_c_while_the_interpreter_of_a_tool_ends_prints_no_traceback(tmp_path):
    program = """
import atexit, signal, sys
from rillet.__main__ import main
atexit.register(signal.raise_signal, signal.SIGINT)
sys.exit(main())
"""
    words = [sys.executable, "-c", program, "check-rdb", "missing.rdb"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGINT
    assert "Traceback" not in done.stderr


def test_two_ctrl_c_at_many_moments_of_the_start_end_without_a_traceback(tmp_path):
    for moment in MOMENTS:
        status, output = interrupted([SCRIPT, "--port", "0"], tmp_path, moment, times=2)
        assert "Traceback" not in output, (moment, output)
        assert status == (1 if "You insist" in output else 0), (moment, output)


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
def refusing(tmp_path):
    """A folder in which the process cannot write, and the words that start a program without root's leave to do so."""
    folder = tmp_path / "refusing"
    folder.mkdir()
    folder.chmod(0o555)
    plain = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    yield folder, [*plain, sys.executable]
    folder.chmod(0o755)


@pytest.mark.parametrize(("changes", "status"), [(0, 0), (2, 1)])
def test_in_a_folder_that_is_read_only_for_a_plain_user_ctrl_c_ends_with_what_is_lost(
    refusing, changes, status
):
    folder, python = refusing
    command = [*python, "-m", "rillet", "--port", "0", "--save", "3600 1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        log = ""
        for line in process.stdout:
            log += line
            if "Ready to accept" in line:
                with socket.create_connection(("127.0.0.1", int(re.search(r"port=(\d+)", log)[1]))) as client:
                    for number in range(changes):
                        client.sendall(b"SET k%d v\r\n" % number)
                        assert client.recv(100) == b"+OK\r\n"
                process.send_signal(signal.SIGINT)
    assert process.returncode == status, log
    assert f"The folder {folder} is not writable: saving the data will fail" in log
    said = f"The data could not be saved: {changes} changes since the last save are lost. "
    assert f"{said}Exiting with status {status}." in log
    assert "Traceback" not in log
    assert log.rstrip().endswith(BYE)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("kind", "when"), [("line", "Running mode="), ("import", 100), ("call", 20_000)])
def test_in_such_a_folder_ctrl_c_during_the_start_ends_in_order(refusing, kind, when):
    folder, python = refusing
    command = [*python, "-c", PROGRAM, kind, str(when), "0", "--port", "0"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "Traceback" in done.stdout + done.stderr) == (0, False), (
        done.stdout + done.stderr
    )
    assert BYE in done.stdout


def test_an_append_only_file_in_such_a_folder_is_refused_with_the_reason(refusing):
    folder, python = refusing
    command = [*python, "-m", "rillet", "--port", "0", "--appendonly", "yes"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Permission denied" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def homeless(tmp_path):
    """A server whose folder is gone."""
    folder = tmp_path / "gone"
    folder.mkdir()
    with start_server("rillet", "--save", "3600 1", "--dir", folder, folder=tmp_path) as server:
        shutil.rmtree(folder)
        yield server
        server._process.kill()  # where it must save it does not end by itself


def test_ctrl_c_ends_a_server_that_has_nothing_to_lose(homeless):
    status, log = end(homeless)
    assert status == 0
    assert (
        "The data could not be saved: 0 changes since the last save are lost. Exiting with status 0." in log
    )
    assert BYE in log


def test_ctrl_c_says_what_is_lost_and_with_which_status_it_ends(homeless):
    with homeless.wire() as wire:
        wire.do("SET a 1; SET b 2")
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
def test_the_start_says_where_the_data_will_be_saved(launch, tmp_path, flags, said):
    assert f"* {said.format(tmp_path)}\n" in launch("--port", "0", *flags, folder=tmp_path).ready().output


def test_the_start_warns_of_a_folder_that_is_not_writable(monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    with rillet.testing.Server(dir=tmp_path, save="3600 1") as server:
        assert f"The folder {tmp_path} is not writable: saving the data will fail" in server.log.text()
