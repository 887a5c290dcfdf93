"""``rillet pipeline doctor``: check what the pipeline needs on this machine; report each finding in one line.

Spark's own error is short when it cannot start ("Java gateway process exited"), so this tries its needs one by one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING, Final

from .. import worker_python
from ..error_tokens import LabelledError
from ..java import NoJavaError, find_java, java_home
from ..redis.connection import ConnectionLost, RedisError
from ..redis.options import Endpoint, OptionError
from ..redis.shards import connect
from .endpoint_arguments import add_endpoint_arguments, endpoint_options

if TYPE_CHECKING:
    import argparse

_CLOCK_LIMIT_MS: Final = 1000
_NEEDED: Final = (("pyspark", (4, 0)), ("pyarrow", (18,)), ("hiredis", (3, 2)))
_MARKS: Final = {"ok": "ok     ", "warning": "warning", "wrong": "WRONG  "}
_RAISED: Final = re.compile(r"(?:: )?[A-Za-z_][\w.]*: ")


@dataclass(frozen=True)
class Finding:
    """One line of the report of ``rillet pipeline doctor``."""

    state: str  # ``ok``, ``warning`` or ``wrong``
    about: str
    text: str
    advice: str = ""  # what the user can do about it; "" if nothing

    def __str__(self) -> str:
        advice = f"\n          -> {self.advice}" if self.advice else ""
        return f"{_MARKS[self.state]} {self.about}: {self.text}{advice}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``doctor``: the address of Redis, and whether to start Spark."""
    parser.add_argument(
        "--spark", action="store_true", help="also start a session and let a worker read Redis"
    )
    add_endpoint_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings of ``doctor``; return the exit status: 1 if anything is wrong, 2 if an option is."""
    address = endpoint_options(arguments)
    given = address | {"retries": "0", "timeoutMs": "5000"}
    try:
        endpoint = Endpoint.of(given)
    except OptionError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a tool on the command line
        return 2
    wrong = False
    for finding in chain(
        check_python(), check_packages(), check_java(), check_shell(),
        check_redis(endpoint, is_asked=bool(address)), check_spark(given) if arguments.spark else (),
    ):  # fmt: skip
        print(finding, flush=True)  # noqa: T201 - what was asked for
        wrong |= finding.state == "wrong"
    return int(wrong)


def check_python() -> Iterator[Finding]:
    """Check this Python, and the one that Spark's workers will run."""
    yield Finding("ok", "python", f"{sys.version_info[0]}.{sys.version_info[1]} at {sys.executable}")
    worker = os.environ.get("PYSPARK_PYTHON", sys.executable)
    wrong = worker_python.what_is_wrong(worker)
    yield Finding("wrong", "worker python", *wrong) if wrong else Finding("ok", "worker python", worker)


def check_packages() -> Iterator[Finding]:
    """Check that the packages from PyPI are installed, in versions that work."""
    for name, least in _NEEDED:
        wanted = ".".join(map(str, least))
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding("wrong", name, "not installed", "pip install 'rillet[spark]'")
            continue
        numbers = tuple(int(part) for part in version.split(".")[: len(least)] if part.isdigit())
        if numbers < least:
            yield Finding(
                "wrong", name, f"{version} is older than {wanted}", f"pip install '{name}>={wanted}'"
            )
        else:
            yield Finding("ok", name, version)


def check_java() -> Iterator[Finding]:
    """Check the Java that a session would use."""
    try:
        java = find_java()
    except NoJavaError as error:
        yield Finding("wrong", "java", error.words)
        return
    home = java_home(java)
    program = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - as Spark will
    if done.returncode:
        yield Finding("wrong", "java", f"{java} does not start: {(done.stdout + done.stderr).strip()}")
    elif java.flags:
        yield Finding(
            "warning",
            "java",
            f"{java} corrupts zstd data under G1; a session adds {java.flags}",
            "use 25.0.3 or 21",
        )
    else:
        yield Finding("ok", "java", f"{java}{'' if home == java.home else f', started by {home}'}")


def check_shell() -> Iterator[Finding]:
    """Check that the programs exist which Spark's start script and file system call."""
    for name in ("bash", "chmod", "ps"):
        if shutil.which(name):
            continue
        state = "warning" if name == "ps" else "wrong"
        yield Finding(
            state,
            name,
            "not on PATH",
            "Spark calls it" if name != "ps" else "Spark uses it to see whether it runs",
        )


def check_redis(endpoint: Endpoint, *, is_asked: bool = True) -> Iterator[Finding]:
    """Check that the server is reachable and new enough, and that its clock agrees with ours.

    ``is_asked``: the user gave the address. Otherwise a missing server is only a warning.
    """
    try:
        with connect(endpoint, at_start=True) as connection:
            info = _info(connection.call("INFO", "server"))
            before = time.time()
            seconds, microseconds = connection.call("TIME")
            after = time.time()
    except RedisError as error:
        advice = "--host, --port, --password … say where it is"
        if is_asked or not isinstance(error, ConnectionLost):
            yield Finding("wrong", "redis", error.words, advice)
        else:
            start = f"start one (rillet --port {endpoint.port}), or {advice}; report and ledger need none"
            yield Finding("warning", "redis", f"no server at {endpoint} yet", start)
        return
    name = "Valkey" if "valkey_version" in info else "Rillet" if "rillet_version" in info else "Redis"
    version = info.get(f"{name.lower()}_version", info.get("redis_version", "?"))
    text = f"{name} {version} at {endpoint}"
    if int(info.get("redis_version", "0").partition(".")[0]) < 7:
        yield Finding(
            "warning",
            "redis",
            f"{text}: no entries-added",
            "lost entries can be noticed but not counted before Redis 7",
        )
    else:
        yield Finding("ok", "redis", text)
    apart = round((int(seconds) + int(microseconds) / 1e6 - (before + after) / 2) * 1000)
    if abs(apart) > _CLOCK_LIMIT_MS:
        yield Finding(
            "warning",
            "clock",
            f"Redis is {apart:+} ms from here",
            "lag in seconds and time bounds are off by as much",
        )
    else:
        yield Finding("ok", "clock", f"Redis is {apart:+} ms from here")


def check_spark(given: Mapping[str, str]) -> Iterator[Finding]:
    """Check that Spark starts, and that its Python worker can read from the server.

    ``given``: options of the source (host, port …).

    Yields:
        A finding for the session and one for the worker. After an error, a finding that says so, and nothing more.
    """
    from ..sessions import session

    about = "spark"
    began = time.monotonic()
    try:
        spark = session("rillet-doctor", quiet=True, **{"spark.master": "local[1]"})
        yield Finding("ok", about, f"{spark.version} started in {time.monotonic() - began:.1f} s")
        about = "worker"
        began = time.monotonic()
        reader = spark.read.format("redis-streams").options(**given, streamsPattern="rillet-doctor-*")
        count = reader.load().count()
        yield Finding("ok", about, f"read {count} entries in {time.monotonic() - began:.1f} s")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
        yield Finding("wrong", about, _reason(error))


def _reason(error: Exception) -> str:
    """Return one line of an error; of a Python or Java traceback the exception."""
    text = error.words if isinstance(error, LabelledError) else str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return (raised or lines[:1] or [type(error).__name__])[-1].removeprefix(": ")


def _info(text: bytes) -> dict[str, str]:
    lines = text.decode(errors="replace").splitlines()
    return {name: value for name, _, value in (line.partition(":") for line in lines) if value}
