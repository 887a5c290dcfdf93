"""The first minutes in an environment that has what an extra names and nothing else (make test-spark: JVMs of their own).

The packages are those that pip would bring: the extra's requirements, theirs, and so on, linked from this environment.
"""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.ports import free_port
from support.servers import start_server
from support.until import until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
TOOLS = ("bash", "chmod", "dirname", "env", "ps", "sh", "uname", "rm", "mkdir", "cat", "ls")


def brought(requirement):
    """The distributions that a requirement brings."""
    waiting, seen, found = [Requirement(requirement)], set(), set()
    while waiting:
        each = waiting.pop()
        if (each.name, *sorted(each.extras)) in seen:
            continue
        seen.add((each.name, *sorted(each.extras)))
        found.add(each.name)
        for text in distribution(each.name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in (each.extras or {""})
            ):
                waiting.append(needed)
    return found - {"rillet"}


class Environment:
    """A Python with Rillet and what some extras bring; `run` runs it with no more on PATH than Spark's scripts need."""

    def __init__(self, folder, *extras):
        self.folder = folder
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", folder / "python"], check=True, timeout=120
        )
        [site] = (folder / "python" / "lib").glob("python*/site-packages")
        (site / "rillet").symlink_to(ROOT)
        for name in brought(f"rillet[{','.join(extras)}]"):
            package = distribution(name)
            for part in {Path(file).parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                if not (site / part).exists():
                    (site / part).symlink_to(package.locate_file(part))
        (folder / "tools").mkdir()
        for name in TOOLS:
            (folder / "tools" / name).symlink_to(shutil.which(name))
        self.environment = {"PATH": str(folder / "tools"), "HOME": str(folder)}

    def start(self, *words):
        log = (self.folder / "log").open("ab")
        with log:
            return subprocess.Popen(
                [self.folder / "python" / "bin" / "python", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=self.environment,
            )  # fmt: skip

    def run(self, *words):
        assert self.start(*words).wait(500) == 0, self.said()[-6000:]

    def said(self):
        return (self.folder / "log").read_text()


@pytest.mark.many_jvms
def test_the_two_minutes_need_no_more_than_their_extra(tmp_path):
    here = Environment(tmp_path, "spark", "java")
    sh = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    served, report = (next(line for block in sh for line in block.splitlines() if line.startswith(begin)) for begin in (
        "rillet --port", "rillet pipeline report",
    ))  # fmt: skip
    code = re.search(r"^```python\n(import random\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    port = str(free_port())

    def adapted(text):
        return text.replace("/tmp/tour", str(tmp_path / "tour")).replace("7379", port)

    here.run("-m", "rillet", "pipeline", "doctor")  # before there is a server
    (tmp_path / "tour").mkdir()
    server = here.start("-m", "rillet", *shlex.split(adapted(served))[1:-1])
    try:
        until(lambda: "Ready to accept connections" in here.said(), 60)
        here.run("-c", adapted(code))
        here.run("-m", "rillet", *shlex.split(adapted(report))[1:])
        here.run("-m", "rillet", "pipeline", "doctor", "--port", port)
    finally:
        server.terminate()
        server.wait(60)
    assert "delivered message" in (tmp_path / "tour" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Traceback" not in here.said()
    assert "WRONG" not in here.said()


@pytest.mark.many_jvms
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_lake_needs_no_more_than_its_extra(kind, tmp_path):
    here = Environment(tmp_path, "lake", "java")
    with start_server("rillet") as server, server.wire() as wire:
        for n in range(1, 4):
            wire.call("XADD", "orders", f"{n}-0", "n", str(n))
        words = [
            "ingest", "--streams", "orders", "--out", "lake", "--format", kind, "--port", str(server.port),
        ]  # fmt: skip
        here.run("-m", "rillet", "pipeline", *words)
    assert "is up to date: 1 new batch" in here.said()
    assert "Traceback" not in here.said()
