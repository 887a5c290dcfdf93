"""Files with a defect: what real servers forgive, Rillet forgives; what they refuse, it refuses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import pytest
from support import payloads
from support.servers import start_server
from support.until import until
from support.wire import ConnectionClosedError, Wire, parse


def text(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def listpack(*words: bytes) -> bytes:
    body = b"".join(bytes([0x80 | len(word)]) + word + bytes([len(word) + 1]) for word in words)
    return text(struct.pack("<IH", 7 + len(body), len(words)) + body + b"\xff")


def ziplist(*words: bytes) -> bytes:
    return text(payloads.ziplist(words))


def intset(*numbers: int) -> bytes:
    return text(struct.pack(f"<II{len(numbers)}h", 2, len(numbers), *numbers))


def version_of(kind: int) -> int:
    """The first version of RDB with a type."""
    return 9 if kind < 16 or kind > 30 else 10 if kind < 19 else 12


def score(number: float) -> bytes:
    return struct.pack("<d", number)


A = text(b"a")
# The type byte and the content of the key `h`, in front of a string at the key `k`.
VALUES: dict[str, tuple[int, bytes]] = {
    "an empty list": (1, b"\0"),
    "an empty set": (2, b"\0"),
    "an empty sorted set of old scores": (3, b"\0"),
    "an empty hash": (4, b"\0"),
    "an empty sorted set": (5, b"\0"),
    "an empty zipmap": (9, text(b"\0\xff")),
    "an empty list in a ziplist": (10, ziplist()),
    "an empty intset": (11, intset()),
    "an empty sorted set in a ziplist": (12, ziplist()),
    "an empty hash in a ziplist": (13, ziplist()),
    "a quicklist without nodes": (14, b"\0"),
    "a quicklist with an empty node": (14, b"\1" + ziplist()),
    "a quicklist with an empty and a full node": (14, b"\2" + ziplist() + ziplist(b"a", b"b")),
    "an empty hash in a listpack": (16, listpack()),
    "an empty sorted set in a listpack": (17, listpack()),
    "a newer quicklist without nodes": (18, b"\0"),
    "a newer quicklist with an empty node": (18, b"\1\2" + listpack()),
    "a newer quicklist with an empty and a full node": (
        18,
        b"\2\2" + listpack() + b"\2" + listpack(b"a", b"b"),
    ),
    "an empty set in a listpack": (20, listpack()),
    "an empty hash with times": (24, bytes(8) + b"\0"),
    "an empty hash with times in a listpack": (25, bytes(8) + listpack()),
    "a hash with a field too many": (13, ziplist(b"a", b"b", b"c")),
    "a score of -0": (17, listpack(b"a", b"-0")),
    "a score of -0 in a ziplist": (12, ziplist(b"a", b"-0")),
    "a score of -0 in bytes": (5, b"\1" + A + score(-0.0)),
    "a score that is no number": (5, b"\1" + A + score(float("nan"))),
    "an intset that is not sorted": (11, intset(5, 3)),
    "a set with a member twice": (2, b"\2" + A + A),
    "a sorted set with a member twice": (5, b"\2" + A + score(1) + A + score(2)),
    "an unknown type": (99, b"\0"),
    "a ziplist in a quicklist": (14, b"\1" + ziplist(b"a", b"b")),
    "an empty stream": (15, bytes(5)),
    "a list in a ziplist": (10, ziplist(b"a", b"b")),
    "a node of one large element": (18, b"\1\1" + text(b"abc")),
    "an empty node of one large element": (18, b"\1\1\0"),
    "an empty node of one large element and a full node": (18, b"\2\1\0\2" + listpack(b"a")),
    "a full node and an empty one of one large element": (18, b"\2\2" + listpack(b"a") + b"\1\0"),
    "a node of no kind": (18, b"\1\0" + listpack(b"a")),
    "a node of an unknown kind": (18, b"\1\3" + listpack(b"a")),
    "a field without value in a listpack": (16, listpack(b"a")),
    "a field too many in a listpack": (16, listpack(b"a", b"b", b"c")),
    "a member without score in a listpack": (17, listpack(b"a")),
    "a member too many in a listpack": (17, listpack(b"a", b"1", b"b")),
    "a member too many in a ziplist": (12, ziplist(b"a", b"1", b"b")),
    "a field without value in a ziplist": (13, ziplist(b"a")),
    "a field without time in a listpack": (25, bytes(8) + listpack(b"a", b"b")),
    "a hash in a listpack": (16, listpack(b"a", b"b")),
    "a hash": (4, b"\1" + A + A),
    "a sorted set in a ziplist": (12, ziplist(b"a", b"1", b"b", b"2")),
    "a sorted set that is not sorted": (17, listpack(b"a", b"2", b"b", b"1")),
    "a sorted set that is not sorted in a ziplist": (12, ziplist(b"a", b"2", b"b", b"1")),
    "a score in words": (17, listpack(b"a", b"x")),
    "a score in words in a ziplist": (12, ziplist(b"a", b"x")),
    "a score that is no number in a listpack": (17, listpack(b"a", b"nan")),
    "an infinite score in a listpack": (17, listpack(b"a", b"inf")),
    "an old score of -0": (3, b"\1" + A + b"\2-0"),
    "an old score that is no number": (3, b"\1" + A + b"\xfd"),
    "an old infinite score": (3, b"\1" + A + b"\xff"),
    "a field twice in a listpack": (16, listpack(b"a", b"b", b"a", b"c")),
    "a field twice": (4, b"\2" + A + A + A + A),
    "a member twice in a listpack": (20, listpack(b"a", b"a")),
    "a number twice in an intset": (11, intset(1, 1)),
    "a set in a listpack": (20, listpack(b"a", b"b")),
    "an intset of an unknown width": (11, text(struct.pack("<IIh", 3, 1, 1))),
    "an intset that is cut": (11, text(struct.pack("<IIh", 2, 2, 1))),
    "a ziplist with a wrong count": (13, text(struct.pack("<IIH", 17, 13, 4) + b"\0\1a\3\1b\xff")),
    "a listpack of a wrong size": (16, text(struct.pack("<IH", 99, 2) + listpack(b"a", b"b")[7:])),
    "a listpack without end": (16, text(listpack(b"a", b"b")[1:-1] + b"\0")),
    "a zipmap": (9, text(b"\1\1a\1\0b\xff")),
    "a field without value in a zipmap": (9, text(b"\1\1a\xff")),
    "an empty element": (1, b"\1\0"),
    "an empty member": (2, b"\1\0"),
}
# unsound-values: real servers load them, and what commands then do is chance.
UNSOUND = {
    "an intset that is not sorted", "a sorted set that is not sorted", "a sorted set that is not sorted in a ziplist", "a score in words",
    "a score in words in a ziplist", "a score that is no number in a listpack", "a field twice in a listpack", "a field twice",
    "a member twice in a listpack", "a number twice in an intset",
}  # fmt: skip
# A full sync takes a second each: one of each kind.
SYNCED = (
    "an empty list", "an empty zipmap", "an empty hash in a listpack", "a quicklist with an empty and a full node", "a list in a ziplist",
    "an empty node of one large element", "a field without value in a listpack", "a field too many in a listpack", "a score of -0",
    "a listpack of a wrong size", "an unknown type",
)  # fmt: skip
STRING = b"\0" + text(b"k") + text(b"v")
SELECT, END = b"\xfe\0", b"\xff" + bytes(8)
FILES: dict[str, bytes] = {
    name: b"REDIS%04d" % version_of(kind) + SELECT + bytes([kind]) + text(b"h") + content + STRING + END
    for name, (kind, content) in VALUES.items()
} | {
    "a key without a name": b"REDIS0009" + SELECT + b"\0\0" + text(b"v") + STRING + END,
    "another magic word": b"RADIS0009" + SELECT + STRING + END,
    "version 0": b"REDIS0000" + SELECT + STRING + END,
    "a version that does not exist": b"REDIS0099" + SELECT + STRING + END,
    "a wrong checksum": b"REDIS0009" + SELECT + STRING + b"\xff12345678",
    "no end": b"REDIS0009" + SELECT + STRING,
    "half a checksum": b"REDIS0009" + SELECT + STRING + b"\xff1234",
    "bytes behind the end": b"REDIS0009" + SELECT + STRING + END + b"xyz",
    "a key twice": b"REDIS0009" + SELECT + STRING + STRING + END,
    "a database that does not exist": b"REDIS0009\xfe\x40\x63" + STRING + END,
    "an unknown field": b"REDIS0009\xfa" + text(b"nosuch") + text(b"x") + SELECT + STRING + END,
    "a key past its time": b"REDIS0009" + SELECT + b"\xfc" + struct.pack("<Q", 5) + STRING + END,
    "bytes that expand to nothing": b"REDIS0009" + SELECT + b"\0" + A + b"\xc3\2\5\xff\xff" + END,
    "an unknown encoding": b"REDIS0009" + SELECT + b"\0" + A + b"\xc4\5" + END,
}


REFUSED = "refused"


def shown(wire: Wire, key: str) -> object:
    """The type, the encoding and the content of a key; None without it."""
    kind = wire.call("TYPE", key).value.decode()
    reads = {
        "list": ("LRANGE", key, 0, -1), "set": ("SMEMBERS", key), "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        "hash": ("HGETALL", key), "string": ("GET", key), "stream": ("XRANGE", key, "-", "+"),
    }  # fmt: skip
    return (
        None
        if kind == "none"
        else (kind, wire.call("OBJECT", "ENCODING", key).value, wire.call(*reads[kind]).plain())
    )


class Loader:
    """A server that is given one file or payload after the other, and starts again where it ended at one."""

    def __init__(self, kind: str, folder: Path, *flags: str) -> None:
        folder.mkdir()
        self.bases: dict[Path, bytes] = {}
        self.kind, self.folder, self.reads_newer = kind, folder, not kind.endswith(("7", "7.0"))
        self.server = start_server(kind, "--enable-debug-command", "yes", *flags, folder=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.discard()

    def each(self, names: Iterable[str], way: Callable[[Wire, str], object]) -> dict[str, object]:
        found = {}
        for name in names:
            if not self.reads_newer and name in VALUES and 18 < VALUES[name][0] < 30:
                continue  # Rillet reads newer files as any version
            try:
                with self.server.wire() as wire:
                    found[name] = way(wire, name)
            except (TimeoutError, AssertionError) as error:  # seen once, and not again in 100 runs
                raise AssertionError(f"{self.kind} hangs with the file {name!r}: {self.state()}") from error
            except (ConnectionClosedError, ConnectionError):
                found[name] = REFUSED
                (self.folder / "dump.rdb").unlink(missing_ok=True)
                for base, data in self.bases.items():
                    base.write_bytes(data)
                self.server.restart()
        return found

    def state(self) -> str:
        """What the system and the log say of a server that hangs."""
        process = Path(f"/proc/{self.server.pid}")
        facts = [
            (process / name).read_text().strip() for name in ("wchan", "status") if (process / name).exists()
        ]
        return "\n".join([*facts, self.server.log[-3000:]])

    def reload(self, wire: Wire, name: str) -> object:
        (self.folder / "dump.rdb").write_bytes(FILES[name])
        if wire.call("DEBUG", "RELOAD", "NOSAVE").kind == "-":
            return REFUSED
        return shown(wire, "h"), shown(wire, "k"), wire.call("DBSIZE").value

    def load_preamble(self, wire: Wire, name: str) -> object:
        (base,) = (self.folder / "appendonlydir").glob("*.base.rdb")
        self.bases.setdefault(base, base.read_bytes())
        base.write_bytes(FILES[name])
        if wire.call("DEBUG", "LOADAOF").kind == "-":
            return REFUSED
        return shown(wire, "h"), shown(wire, "k"), wire.call("DBSIZE").value

    def restore(self, wire: Wire, name: str) -> object:
        """What RESTORE makes of the value, and of its payload in turn; the score is asked for by itself, too."""
        kind, content = VALUES[name]
        wire.call("FLUSHALL")
        reply = wire.call("RESTORE", "h", 0, payloads.payload(kind, content, version_of(kind)))
        if reply.kind == "-":
            return REFUSED
        wire.call("RESTORE", "again", 0, wire.call("DUMP", "h").value)
        again = None if name == "a node of one large element" else shown(wire, "again")  # small-after-reload
        return shown(wire, "h"), again, str(wire.call("ZSCORE", "h", "a"))

    def synchronize(self, wire: Wire, name: str) -> object:
        """As a replica, from a master that has the file. Real servers end where they cannot load it."""
        wire.call("REPLICAOF", "NO", "ONE")
        with Master(FILES[name]) as master:  # its own: what the link before asked for may come late
            wire.call("REPLICAOF", "127.0.0.1", master.port)

            def is_over() -> bool:
                return b"link_status:up" in wire.call("INFO", "replication").value or master.served > 1

            until(is_over)
            if b"link_status:up" not in wire.call("INFO", "replication").value:
                return REFUSED
            return shown(wire, "h"), shown(wire, "k")


class Master:
    """A master that answers each PSYNC with one file."""

    def __init__(self, file: bytes) -> None:
        self.file, self.served = file, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # ends its thread, too
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError), peer:
            while more := peer.recv(1 << 16):
                data += more
                while found := parse(data):
                    words, data = [word.value for word in found[0].children or ()], data[found[1] :]
                    if words[0] == b"PSYNC":
                        self.served += 1
                        peer.sendall(
                            b"+FULLRESYNC %b 0\r\n$%d\r\n%b" % (b"a" * 40, len(self.file), self.file)
                        )
                    elif words[:2] != [b"REPLCONF", b"ACK"]:
                        peer.sendall(b"+PONG\r\n" if words[0] == b"PING" else b"+OK\r\n")


PAIRS = [("rillet", "redis810"), ("rillet-7.0", "redis7")]


def compare(got: dict[str, object], wanted: dict[str, object]) -> None:
    wrong = [
        f"{name}: {got[name]}, real {wanted[name]}"
        for name in wanted
        if got[name] != wanted[name] and name not in UNSOUND
    ]
    assert not wrong, f"{len(wrong)} of {len(wanted)}:\n" + "\n".join(wrong)


def each_way(kinds, folder, files, way, *flags):
    """Compare what becomes of files that two servers take in a way of a loader."""
    found = []
    for kind in kinds:
        with Loader(kind, folder / kind, *flags) as loader:
            found.append(loader.each(files, way(loader)))
    compare(*found)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_defects_of_a_dump_file_are_forgiven_and_refused_as_the_real_server_does(pair, tmp_path):
    each_way(pair, tmp_path, FILES, lambda loader: loader.reload)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_defects_of_a_payload_are_forgiven_and_refused_as_the_real_server_does(pair, tmp_path):
    each_way(pair, tmp_path, VALUES, lambda loader: loader.restore)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_defects_of_the_base_of_an_append_only_file_are_forgiven_and_refused_as_the_real_server_does(
    pair, tmp_path
):
    each_way(pair, tmp_path, VALUES, lambda loader: loader.load_preamble, "--appendonly", "yes")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_defects_of_a_full_sync_are_forgiven_and_refused_as_the_real_server_does(pair, tmp_path):
    each_way(pair, tmp_path, SYNCED, lambda loader: loader.synchronize)
