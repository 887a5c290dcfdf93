"""A noisy neighbour: while one client floods the server, others are served between its commands.

Nothing here is timed. The server runs in a thread of this process, and a callback that its loop calls once a turn
counts how many commands of the flood ran in that turn: as long as a turn takes, all others wait.
"""

import itertools
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from support.live import LiveServer, eventually
from support.tls import TlsWire, make_certificates
from support.wire import Wire, encode_command


@dataclass(frozen=True)
class Load:
    """What a flood consists of.

    Attributes:
        command: one command as it is sent.
        count: how many are sent.
        most: how many may run in one turn of the loop. Generous: some milliseconds of a slow machine hold fewer.
    """

    command: bytes
    count: int
    most: int


LOADS = {
    "inline-ping": Load(b"PING\r\n", 60_000, 15_000),
    "ping": Load(encode_command("PING"), 50_000, 15_000),
    "set": Load(encode_command("SET", "k", "v" * 20), 30_000, 8_000),
    "xadd": Load(encode_command("XADD", "s", "MAXLEN", 1000, "*", "f", "v"), 20_000, 5_000),
    "xrange": Load(encode_command("XRANGE", "hundred", "-", "+"), 2_000, 400),
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def flooded(certificates: Path) -> Iterator[LiveServer]:
    from support.ports import free_port

    with LiveServer(
        port=free_port(),
        tls_port=free_port(),
        tls_cert_file=certificates / "server.crt",
        tls_key_file=certificates / "server.key",
        tls_ca_cert_file=certificates / "ca.crt",
    ) as server:
        with server.wire() as wire:
            for number in range(1, 101):
                wire.call("XADD", "hundred", f"{number}-0", "field", f"value-{number}")
        yield server


class Turns:
    """Counts the commands of each turn of a server's loop, from inside."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.longest = 0
        self.count = 0
        self._before = 0
        self._stopped = False

    def __enter__(self) -> Self:
        self._before = self.server.inside.stats.commands_processed
        self.server.inside.loop.call_soon_threadsafe(self._turn)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.run_inside(self._stop)

    def _turn(self) -> None:
        now = self.server.inside.stats.commands_processed
        self.longest = max(self.longest, now - self._before)
        self._before = now
        self.count += 1
        if not self._stopped:
            self.server.inside.loop.call_soon(self._turn)

    def _stop(self) -> None:
        self._turn()
        self._stopped = True


def flood(wire: Wire, load: Load, *, reads: bool) -> threading.Thread:
    """Send all of it at once from another thread, which reads what comes, or nothing until it is stopped."""

    def run() -> None:
        sock = wire._socket
        sender = threading.Thread(target=send, args=(sock,))
        sender.start()
        if reads:
            # The last reply is that of an ECHO.
            tail = b""
            while not tail.endswith(b"$8\r\nfinished\r\n"):
                data = sock.recv(1 << 18)
                if not data:
                    break
                tail = (tail + data)[-32:]
        sender.join()

    def send(sock: socket.socket) -> None:
        try:
            sock.sendall(load.command * load.count + encode_command("ECHO", "finished"))
        except OSError:
            assert not reads, "the flood is cut"

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("reads", [True, False], ids=["reading", "not-reading"])
@pytest.mark.parametrize("name", LOADS)
def test_no_turn_of_the_loop_belongs_to_one_client(flooded, certificates, name, reads, secure):
    load = LOADS[name]
    tls_port = flooded.inside.config.tls_port
    loud = TlsWire(tls_port, certificates) if secure else flooded.wire()
    with loud, flooded.wire() as quiet, Turns(flooded) as turns:
        before = flooded.inside.stats.commands_processed
        thread = flood(loud, load, reads=reads)
        answered = 0
        if reads:
            # On a busy machine all is over before this thread has had its turn twice; then it is tried again.
            for _ in range(5):
                answered = 0
                while thread.is_alive():
                    assert quiet.call("PING").value == b"PONG"
                    answered += 1
                if answered > 1:
                    break
                thread = flood(loud, load, reads=True)
        else:
            # It stops when nothing more fits into the buffers on the way.
            for _ in itertools.count():
                seen = turns.count, flooded.inside.stats.commands_processed
                for _ in range(20):
                    assert quiet.call("PING").value == b"PONG"
                answered += 20
                eventually(lambda seen=seen: turns.count > seen[0] + 200)
                if flooded.inside.stats.commands_processed - seen[1] <= 20:
                    break
            loud._socket.close()  # the sender's next write fails
        thread.join(60)
        ran = flooded.inside.stats.commands_processed - before
    assert not thread.is_alive()
    assert turns.longest <= load.most, f"{turns.longest} commands in one turn, {ran} in all"
    assert answered > 1
