"""`rillet audit`, as a program."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.live import eventually
from support.tool import run_program

WORKER = Path(__file__).parents[3] / "docs" / "testing" / "workers" / "worker.py"
NAIVE = """\
import os, redis
r = redis.Redis.from_url(os.environ["REDIS_URL"])
try:
    r.xgroup_create("jobs", "workers", "0", mkstream=True)
except redis.ResponseError:
    pass
while True:
    for entries in r.xreadgroup("workers", os.environ["CONSUMER"], {b"jobs": ">"}, count=10, block=500) or []:
        for entry, fields in entries[1]:
            r.sadd("done", fields[b"n"])
            r.xack("jobs", "workers", entry)
"""


def audit(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_program(sys.executable, "-m", "rillet", "audit", *words)


def test_a_worker_that_keeps_its_promises_ends_with_status_0(tmp_path):
    done = audit("--only", "works,backlog", "--json", tmp_path / "a.json", "--", sys.executable, WORKER)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stream jobs, group workers: 2 kept" in done.stdout
    found = json.loads((tmp_path / "a.json").read_text())
    assert found.keys() == {"stream", "group", "promises"}
    assert (found["stream"], found["group"]) == ("jobs", "workers")
    assert [(each["name"], each["result"]) for each in found["promises"]] == [
        ("works", "kept"),
        ("backlog", "kept"),
    ]
    for each in found["promises"]:
        assert each.keys() == {"name", "result", "what", "evidence", "seconds"}
        assert each["evidence"]
        assert each["seconds"] > 0


def test_a_broken_promise_ends_with_status_1_and_is_said_in_every_form(tmp_path):
    worker = tmp_path / "naive.py"
    worker.write_text(NAIVE)
    done = audit(
        "--only", "works,crash,scripts", "--timeout", "2", "--github", "--junit", tmp_path / "a.xml",
        "--json", "-", "--", sys.executable, worker,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("broken     crash            ")
    assert max(map(len, lines[: lines.index("")])) <= 80
    assert any(line.startswith("::error title=rillet audit: crash broken::") for line in lines)
    assert any(
        line.startswith("::notice title=rillet audit: scripts not tried::it sends no EVALSHA")
        for line in lines
    )
    assert "stays pending with w1, delivered once" in " ".join(done.stdout.split())
    suite = ET.parse(tmp_path / "a.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [each.get("name") for each in suite] == ["works", "crash", "scripts"]
    assert "XREADGROUP" in (suite[1][0].text or "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the worker after --"),
        (("--only", "crsh", "--", "true"), "there is no promise 'crsh'; did you mean crash?"),
        (("--send", "7", "--", "true"), "--send 7"),
        (("--send", '{"a": 1', "--", "true"), "--send"),
        (("--jobs", "0", "--", "true"), "are positive"),
        (("--env", "A", "--", "true"), "'A' is not NAME=VALUE"),
        (
            ("--junit", "/no-such-folder/a.xml", "--", "true"),
            "/no-such-folder/a.xml: No such file or directory",
        ),
        (("--", "no-such-command-at-all"), "no-such-command-at-all: No such file or directory"),
        (("--", sys.executable, "-c", "print('it has no idea'); exit(3)"), "it has no idea"),
        (
            (
                "--",
                sys.executable,
                "-c",
                "import os, redis; redis.Redis.from_url(os.environ['REDIS_URL']).xread({'a': 0})",
            ),
            "it reads with XREAD",
        ),
    ],
)
def test_what_cannot_be_run_ends_with_status_2_and_its_reason(words, text):
    done = audit(*words)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def _heard():
    """Signals that whoever started the tests ignores (`nohup`, `&`): for those, only a watch of 40 seconds ends an audit."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_worker_outlives_its_audit_however_that_ends(tmp_path, number):
    worker = tmp_path / "worker.py"
    # Its child has to go, too, and a worker that does not care for signals.
    worker.write_text(
        "import os, signal, subprocess, sys, time\n"
        "for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(each, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "time.sleep(600)\n"
    )
    audited = subprocess.Popen(
        [sys.executable, "-m", "rillet", "audit", "--only", "works", "--", sys.executable, worker],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with audited:
        eventually((tmp_path / "pids").exists)
        pids = eventually(lambda: (tmp_path / "pids").read_text().split())
        audited.send_signal(number)
        audited.wait(60)
    eventually(lambda: not any(map(_runs, pids)))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
