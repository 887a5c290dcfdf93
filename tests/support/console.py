"""A console as a user starts it, and the browser that looks at it."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode

import pytest
from support.servers import peers_folder

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


class ConsoleProcess:
    """`rillet console URL`, on a free port; a context manager that ends it by its pid."""

    def __init__(
        self, url: str, *flags: str, verb: str = "console", env: dict[str, str] | None = None
    ) -> None:
        words = [sys.executable, "-m", "rillet", verb, *([url] if url else []), "--console-port", "0", *flags]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {})},
        )
        assert self._process.stdout is not None
        self.lines: list[str] = []
        for line in self._process.stdout:
            self.lines.append(line)
            if line.startswith("Console of"):
                break
        else:
            raise RuntimeError(f"the console did not start: {self.lines}")
        self.url = self.lines[-1].split()[-1].rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        # Read on, so that a full pipe never holds it up.
        self._reader = threading.Thread(target=lambda: self.lines.extend(self._process.stdout), daemon=True)
        self._reader.start()

    def ask(
        self,
        path: str,
        form: dict[str, str] | None = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
        host: str = "",
    ) -> Answer:
        """Send one request as a program does, without a browser's help."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method or ("GET" if form is None else "POST"), path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            body = urlencode(form).encode() if form is not None else b""
            if form is not None:
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.putheader("Content-Length", str(len(body)))
            for name, text in (headers or {}).items():
                connection.putheader(name, text)
            connection.endheaders(body)
            reply = connection.getresponse()
            return Answer(
                reply.status,
                {name.lower(): text for name, text in reply.getheaders()},
                reply.read().decode("utf-8", "replace"),
            )
        finally:
            connection.close()

    def stop(self) -> str:
        """End it as Ctrl-C does; return all that it printed."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return "".join(self.lines)

    @property
    def status(self) -> int | None:
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()


def chromium() -> str:
    """Debian's browser, or a failed test that says how to get it."""
    found = os.environ.get("RILLET_CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.fail("chromium is not installed: sh tests/browser.sh", pytrace=False)
    return found


def axe() -> Path:
    """The accessibility checker, or a failed test that says how to get it."""
    path = peers_folder() / "axe-core" / "axe.min.js"
    if not path.exists():
        pytest.fail("axe-core was not fetched: sh tests/browser.sh", pytrace=False)
    return path
