"""Frameworks that other people built on Redis, each in an environment of its own under `.frameworks/`.

A driver (`tests/frameworks/drivers/use_NAME.py` or `.js`) is a small real use that asserts what it gets; it runs
in a process of that environment, against redis-server first: what fails there is the driver's fault.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import needs
from support.proxies import proxied
from support.servers import ServerProcess, start_server
from support.tool import run_program

FOLDER = Path(__file__).parents[2] / "frameworks"
ENVIRONMENTS = Path(__file__).parents[3] / ".frameworks"
SERVERS = ("redis7", "rillet")
END = "all as expected\n"
SECONDS_TO_INSTALL = 300
SECONDS_TO_RUN = 300


def use(driver: str, environment: str, kind: str, *, behind_proxy: bool = False) -> None:
    """Run a driver in its environment against a fresh server of a kind; it must get to its end.

    Where that server is Rillet, what the framework wrote is there again after a restart from the append-only file.
    """
    ours = kind == "rillet"  # "rillet-7.0" forgets how many entries a group has read, as Redis 7.0 does
    with (
        start_server(
            kind, *(("--appendonly", "yes", "--enable-debug-command", "yes") if ours else ())
        ) as server,
        proxied(server.port) if behind_proxy else contextlib.nullcontext(server.port) as port,
    ):
        if (FOLDER / "drivers" / f"use_{driver}.js").exists():
            modules = node_environment(environment) / "node_modules"
            command, variables = ["node", f"use_{driver}.js"], {"NODE_PATH": str(modules)}
        else:
            python = python_environment(environment) / "bin" / "python"
            command, variables = [str(python), "run.py", f"use_{driver}"], {"PYTHONPATH": "."}
        status, out, log = _run(command, variables | {"RILLET_FRAMEWORKS_PORT": str(port)})
        assert (status, out.endswith(END)) == (0, True), (
            f"{driver} on {kind}: exit {status}\n{out[-2000:]}\n{log[-6000:]}\nthe server's log:\n{server.log[-2000:]}"
        )
        if ours:
            with server.wire() as wire:
                times_to_live = {
                    key: wire.call("PTTL", key).plain() for key in wire.call("KEYS", "*").plain()
                }
            lasting = [key for key, left in times_to_live.items() if left == -1 or left > 30_000]
            before = _digests(server, lasting)
            server.restart()
            after = _digests(server, lasting)
            assert {key: after[key] for key in lasting if after[key] != before[key]} == {}


def _digests(server: ServerProcess, keys: list[bytes]) -> dict[bytes, tuple[object, object]]:
    """The type and what stands for the content of each key."""
    with server.wire() as wire:
        return {
            key: (wire.call("TYPE", key).plain(), wire.call("DEBUG", "DIGEST-VALUE", key).plain())
            for key in keys
        }


def _run(command: list[str], variables: dict[str, str]) -> tuple[int | str, str, str]:
    process = subprocess.Popen(
        command,
        cwd=FOLDER / "drivers",
        env=os.environ | variables | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, log = process.communicate(timeout=SECONDS_TO_RUN)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it ends the workers that it started
        try:
            out, log = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            out, log = process.communicate()
        return f"still running after {SECONDS_TO_RUN} seconds", out, log
    return process.returncode, out, log


def python_environment(
    name: str, packages: Sequence[str] | None = None, python: str = sys.executable
) -> Path:
    """A virtual environment with some packages: else those of `environments/NAME.txt`."""
    if packages is None:
        packages = _without_comments((FOLDER / "environments" / f"{name}.txt").read_text())
    wanted = "\n".join([f"{python} {sys.version}", *packages])
    with _building(name, wanted) as folder:
        if folder is not None:
            _install(name, [python, "-m", "venv", "--without-pip", "."], folder)
            pip = [sys.executable, "-m", "pip", "--python", "bin/python", "--disable-pip-version-check"]
            _install(name, [*pip, "install", "--quiet", *packages], folder)
    return ENVIRONMENTS / name


def _without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def source_distribution(environment: str, package: str) -> Path:
    """The unpacked source of a package, of the version that an environment names: its tests are in there."""
    pinned = re.compile(rf"{re.escape(package)}==\S+")
    wanted = next(
        filter(pinned.fullmatch, (FOLDER / "environments" / f"{environment}.txt").read_text().split())
    )
    name = f"{environment}-source"
    with _building(name, wanted) as folder:
        if folder is not None:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "download",
                "--quiet",
                "--no-deps",
            ]
            _install(name, [*pip, "--no-binary", package, wanted], folder)
            (archive,) = folder.glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
            archive.unlink()
    (unpacked,) = (path for path in (ENVIRONMENTS / name).iterdir() if path.is_dir())
    return unpacked


def node_environment(name: str) -> Path:
    """A folder with the node modules of `environments/NAME.json`."""
    if not (shutil.which("node") and shutil.which("npm")):
        needs.leave_out("node")
    wanted = (FOLDER / "environments" / f"{name}.json").read_text()
    with _building(name, wanted) as folder:
        if folder is not None:
            (folder / "package.json").write_text(wanted)
            npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            _install(name, npm, folder)
    return ENVIRONMENTS / name


@contextlib.contextmanager
def _building(name: str, wanted: str) -> Iterator[Path | None]:
    """An empty folder to build the environment in, or None where it is there already; one process at a time."""
    folder = ENVIRONMENTS / name
    stamp = folder / ".installed"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            yield None
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
        stamp.write_text(wanted)


def _install(name: str, command: list[str], folder: Path) -> None:
    """One step of building an environment; without a network the test is skipped, and the summary shows that."""
    done = run_program(*command, seconds=SECONDS_TO_INSTALL, cwd=folder)
    if done.returncode:
        needs.leave_out("frameworks", f"{name}: {' '.join(command)}\n{done.stderr[-1500:]}")
