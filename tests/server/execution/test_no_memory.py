"""A real process to which the system gives no more memory: what it confirmed, and what it holds, is what it wrote."""

import contextlib
import resource
import subprocess
import sys
from pathlib import Path

from support.live import LiveServer, eventually
from support.ports import free_port
from support.wire import ConnectionClosedError, Wire

MEMORY = 340 << 20  # bytes of addresses
BIG = b"x" * (40 << 20)


def start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    flags = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "yes",
        # Compressed, equal bytes take no room in a base, and each command would begin a rewrite.
        "--rdbcompression",
        "no",
    ]
    with (folder / "out").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "rillet", *flags], stdout=out, stderr=out, cwd=folder
        )

    def answers() -> bool:
        with contextlib.suppress(OSError, ConnectionClosedError), Wire(port) as wire:
            return wire.call("PING").value == b"PONG"
        return False

    eventually(answers)
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    return process, port


def test_after_commands_that_found_no_memory_a_restart_shows_what_was_in_memory(tmp_path):
    process, port = start(tmp_path)
    try:
        answers: list[bytes] = []
        lengths: dict[str, int] = {}
        for number in range(14):
            key = f"k{number % 6}"
            try:
                with Wire(port, timeout=60) as wire:
                    answers.append(wire.call("SET", key, BIG[: len(BIG) - number]).value)
            except (OSError, ConnectionClosedError):
                answers.append(b"closed")
        with contextlib.suppress(OSError, ConnectionClosedError), Wire(port, timeout=60) as wire:
            lengths = {f"k{number}": wire.call("STRLEN", f"k{number}").plain() for number in range(6)}
        assert b"OK" in answers
        assert set(answers) > {b"OK"}, "there was memory enough"
        process.kill()
        process.wait()
        log = (tmp_path / "out").read_text()
        assert lengths or "Exiting..." in log
        with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
            if lengths:
                assert {key: wire.call("STRLEN", key).plain() for key in lengths} == lengths
            confirmed = {f"k{number % 6}": number for number, answer in enumerate(answers) if answer == b"OK"}
            for key in confirmed:
                assert wire.call("EXISTS", key).plain() == 1
    finally:
        process.kill()
        process.wait()
