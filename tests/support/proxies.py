"""`rillet proxy` as a program, in front of a server."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator


def start_proxy(*words: str) -> subprocess.Popen[str]:
    """Start the program; it may refuse its words."""
    return subprocess.Popen(
        [sys.executable, "-m", "rillet", "proxy", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def port_when_ready(process: subprocess.Popen[str]) -> int:
    """Wait until the program accepts connections, and return its port."""
    assert process.stdout is not None
    first = process.stdout.readline()
    assert process.stdout.readline() == "Ready to accept connections\n", process.communicate()
    return int(first.split()[0].rpartition(":")[2])


@contextlib.contextmanager
def proxied(port: int) -> Iterator[int]:
    """Run a proxy in front of a server, and give its port."""
    process = start_proxy(f"redis://127.0.0.1:{port}", "--port", "0", "--no-debug")
    try:
        yield port_when_ready(process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=60)
    assert (process.returncode, log) == (0, ""), out
