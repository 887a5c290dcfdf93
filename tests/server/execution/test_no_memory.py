"""A real process to which the system gives no more memory: what it confirmed, and what it holds, is what it wrote."""

import contextlib
import resource

from support.limited import limited_process
from support.live import LiveServer
from support.wire import ConnectionClosedError, Wire

MEMORY = 340 << 20  # bytes of addresses
BIG = b"x" * (40 << 20)


def test_after_commands_that_found_no_memory_a_restart_shows_what_was_in_memory(tmp_path):
    # Compressed, equal bytes take no room in a base, and each command would begin a rewrite.
    with limited_process(tmp_path, "--rdbcompression", "no") as (process, port):
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
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
