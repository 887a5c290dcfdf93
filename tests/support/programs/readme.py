"""What README.md shows, as programs and sessions to run."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SERVER = re.search(r"<!-- server -->\n```sh\n(.*?)```\n<!-- /server -->", README, re.DOTALL)[1]
STORY = re.search(r"<!-- story -->\n```\n(.*?)```\n<!-- /story -->", README, re.DOTALL)[1]


def program() -> str:
    """The Python that is a program."""
    return next(block for block in PYTHON if "import rillet" in block)


def file_for_pytest(application: str) -> str:
    """The Python that pytest runs, behind a class ``my_application``."""
    return application + next(block for block in PYTHON if "def test_" in block)


def story() -> list[tuple[str, str]]:
    """The lines of the story, each with what redis-cli prints."""
    return [tuple(step.split("\n", 1)) for step in re.split(r"^> ", STORY, flags=re.MULTILINE)[1:]]


@contextmanager
def running(words: list[str], variables: dict[str, str], folder: Path) -> Iterator[str]:
    """Start a server and yield its port; it has to end within the block, with status 0."""
    with subprocess.Popen(words, env=variables, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = ""
            for said in process.stdout:
                port = re.search(r"port=(\d+)", said)[1] if "port=" in said else port
                if "Ready to accept" in said:
                    break
            yield port
            process.stdout.read()
            assert process.wait(60) == 0
        finally:
            process.kill()  # one that has ended stays as it is


def run_server_block(scripts: Path, folder: Path) -> list[str]:
    """Run what README shows of a server, and return what each line behind the first one prints.

    The first line starts the server, the others are typed beside it; another folder and a free port are taken.

    Args:
        scripts: the folder with ``rillet``.
        folder: where the data goes.
    """
    start, *lines = SERVER.replace("/tmp/rillet", str(folder)).splitlines()
    end = next(index for index, line in enumerate(lines) if line.endswith("SHUTDOWN")) + 1
    variables = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    assert start.startswith("rillet --port 7000 ")

    def typed(line: str) -> str:
        return subprocess.run(
            ["sh", "-c", line],
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    with running(shlex.split(start.replace("7000", "0")), variables, folder) as port:
        printed = [typed(line.replace("7000", port)) for line in lines[:end]]
    return printed + [typed(line) for line in lines[end:]]


def redis_cli(port: int | str, line: str) -> str:
    """What an interactive redis-cli prints for one line, without the time that it adds to a slow reply."""
    words = ["redis-cli", "--no-raw", "-p", str(port)]
    done = subprocess.run(words, input=line + "\n", capture_output=True, text=True, timeout=60, check=True)
    return re.sub(r"^\(\d+\.\d+s\)\n", "", done.stdout, flags=re.MULTILINE)
