"""kill -9 under load, during rewrites and manifest switches too: nothing that was confirmed is ever lost.

RILLET_KILLS says how often (`make crash`: 1,000); RILLET_SEED gives other choices, if not its timing.
"""

import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash import GROUP, KEY, Journal, State, Worker, read_state
from support.servers import ServerProcess, start_server
from support.wire import ConnectionClosedError, Wire

KILLS = int(os.environ.get("RILLET_KILLS", "32"))
SEED = int(os.environ.get("RILLET_SEED", "1"))
WORKERS = 4
MODES = [("always", "yes"), ("always", "no"), ("everysec", "yes"), ("everysec", "no")]
EACH = max(KILLS // (2 * len(MODES)), 1)


class Rewriter(threading.Thread):
    """Asks for one rewrite after the other."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(port)

    def run(self) -> None:
        try:
            while True:
                self._wire.call("BGREWRITEAOF")
                time.sleep(0.002)
        except (OSError, ConnectionClosedError):
            self._wire.close()


def moment(kind: str, server: ServerProcess, workers: list[Worker], chance: random.Random) -> None:
    """Wait for the time to kill."""
    folder = server.dir / "appendonlydir"
    end = time.monotonic() + 5
    wanted = chance.randrange(5, 200)
    while sum(len(worker.steps) for worker in workers) < wanted and time.monotonic() < end:
        time.sleep(0.001)
    match kind:
        case "rewrite":  # somewhere in one
            before = set(folder.iterdir())
            while set(folder.iterdir()) == before and time.monotonic() < end:
                pass
            time.sleep(chance.choice([0, 0.001, 0.01, 0.05]) * chance.random())
        case "switch":  # while a manifest takes the place of another one
            while not (folder / "temp-appendonly.aof.manifest").exists() and time.monotonic() < end:
                pass
            time.sleep(chance.choice([0, 0.0002, 0.002]) * chance.random())


def live(server: ServerProcess, before: State, chance: random.Random) -> Journal:
    """One life under load, ended by SIGKILL."""
    kind = chance.choice(["any", "rewrite", "switch", "switch"])
    workers = [
        Worker(f"w{number}", server.port, chance.randrange(1 << 30), before) for number in range(WORKERS)
    ]
    threads = [*workers, Rewriter(server.port)] if kind != "any" or chance.random() < 0.5 else workers
    for thread in threads:
        thread.start()
    moment(kind, server, workers, chance)
    server._process.kill()
    server._process.wait()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return Journal(before, [step for worker in workers for step in worker.steps])


def keep_evidence(folder: Path, journal: Journal, now: State) -> Path:
    """Copy what a failure is to be understood from to where it stays."""
    kept = Path(tempfile.mkdtemp(prefix="rillet-kill-failed-"))
    shutil.copytree(folder, kept / "files")
    lines = [*map(repr, journal.steps), repr(journal.before), repr(now)]
    (kept / "journal.txt").write_text("\n".join(lines))
    return kept


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path) -> Iterator[Path]:
    """Where an fsync takes its time, and where one takes none: the moments that a kill hits differ."""
    memory = Path("/dev/shm")
    if request.param == "disk" or not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="rillet-kill-") as name:
        yield Path(name)


@pytest.mark.parametrize(("policy", "preamble"), MODES)
def test_what_was_confirmed_survives_kill_9(policy, preamble, folder, record_property):
    chance = random.Random(f"{SEED} {policy} {preamble}")
    flags = ("--appendonly", "yes", "--appendfsync", policy, "--aof-use-rdb-preamble", preamble)
    server = start_server("rillet", *flags, "--auto-aof-rewrite-percentage", "0", folder=folder)
    with server, server.wire() as wire:
        wire.call("XGROUP", "CREATE", KEY, GROUP, "0", "MKSTREAM")
        before = State()
        done = 0
        for kill in range(EACH):
            journal = live(server, before, chance)
            server.start()
            with server.wire() as after:
                now = read_state(after)
            try:
                journal.check(now)
            except AssertionError as error:
                kept = keep_evidence(folder, journal, now)
                raise AssertionError(
                    f"seed {SEED}, kill {kill}, files and journal in {kept}: {error}"
                ) from error
            done += len(journal.confirmed)
            before = now
        assert done > 2 * EACH
        assert "Traceback" not in server.log
        rewrites = server.log.count("Background AOF rewrite finished successfully")
        record_property("kills", EACH)
        record_property("confirmed", done)
        record_property("rewrites", rewrites)
