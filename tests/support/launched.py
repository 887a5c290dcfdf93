"""A server as its user starts it: `python -m rillet …`, or a program; what it says, its port, its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.live import DEADLINE
from support.until import until
from support.wire import Wire


class Launched:
    """A process in a folder; everything it says is in `output`."""

    def __init__(self, *words: object, folder: Path, out: Path, program: str | None = None) -> None:
        self.folder, self.out = folder, out
        command = [sys.executable, *(["-c", program] if program else ["-m", "rillet"]), *map(str, words)]
        with out.open("wb") as file:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder
            )

    @property
    def output(self) -> str:
        return self.out.read_text()

    def ready(self) -> Launched:
        until(lambda: "Ready to accept connections" in self.output or self.popen.poll() is not None)
        assert self.popen.poll() is None, self.output
        return self

    @property
    def port(self) -> int:
        return int(re.search(r"port=(\d+)", self.output)[1])  # type: ignore[index]

    def wire(self) -> Wire:
        return Wire(self.port, timeout=DEADLINE)

    def wait(self) -> int:
        return self.popen.wait(DEADLINE)
