"""What a server says in a terminal, where a person reads it, and not in a file or a pipe."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.servers import require_binary
from support.until import until

if sys.platform != "win32":
    import pty

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")

RILLET = (sys.executable, "-m", "rillet")
READY = "Ready to accept connections"
HINT = re.compile(r"See the streams in a browser: (?P<command>.*) console (?P<url>redis://\S+)\r?\n")


def said_in_a_terminal(*words: str, log: Path | None = None) -> str:
    """What a command prints in a terminal from its start to its end by SIGTERM, as soon as it is ready."""
    master, slave = pty.openpty()
    said = ""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as process:
        os.close(slave)
        if log is not None:
            until(lambda: log.exists() and READY in log.read_text())
            process.terminate()
        with suppress(OSError):  # the end of the terminal
            while data := os.read(master, 4096):
                said += data.decode()
                if READY in said:
                    process.terminate()  # what the start says is said before a signal is taken
        os.close(master)
    return said


def port_of(said: str) -> str:
    return re.search(r"port=(\d+)", said)[1]


def test_the_last_line_of_a_start_says_how_to_see_the_streams(tmp_path):
    said = said_in_a_terminal(*RILLET, "--port", "0", "--dir", str(tmp_path))
    found = HINT.search(said)
    assert found["url"] == f"redis://127.0.0.1:{port_of(said)}"
    assert found["command"] == "rillet"
    assert said.index(READY) < found.start()


def test_a_program_that_is_not_on_the_path_is_named_in_full_as_in_make_run(tmp_path):
    program = str(require_binary("rillet"))
    said = said_in_a_terminal("/bin/sh", "-c", f"PATH=/usr/bin:/bin exec {program} --port 0 --dir {tmp_path}")
    assert HINT.search(said)["command"] == program


def test_the_address_is_one_that_it_listens_on(tmp_path):
    said = said_in_a_terminal(*RILLET, "--port", "0", "--bind", "127.0.0.2", "--dir", str(tmp_path))
    assert HINT.search(said)["url"] == f"redis://127.0.0.2:{port_of(said)}"


def test_a_sentinel_has_no_streams_to_see(tmp_path):
    conf = tmp_path / "sentinel.conf"
    conf.write_text("port 0\n")
    assert not HINT.search(said_in_a_terminal(*RILLET, str(conf), "--sentinel"))


def test_a_log_file_does_not_have_it(tmp_path):
    log = tmp_path / "log"
    words = ["--port", "0", "--dir", str(tmp_path), "--logfile", str(log)]
    said = said_in_a_terminal(*RILLET, *words, log=log)
    assert not HINT.search(said + log.read_text())


def test_a_pipe_does_not_have_it(tmp_path):
    words = [*RILLET, "--port", "0", "--dir", str(tmp_path)]
    said = ""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            said += line
            if READY in line:
                process.terminate()
    assert not HINT.search(said)
