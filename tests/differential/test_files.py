"""Files with a defect: what real servers forgive, Rillet forgives; what they refuse, it refuses."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from support.servers import start_server
from support.wire import ConnectionClosedError

if TYPE_CHECKING:
    from pathlib import Path


def text(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def listpack(*words: bytes) -> bytes:
    body = b"".join(bytes([0x80 | len(word)]) + word + bytes([len(word) + 1]) for word in words)
    return text(struct.pack("<IH", 7 + len(body), len(words)) + body + b"\xff")


def ziplist(*words: bytes) -> bytes:
    body, before, tail = b"", 0, 10
    for word in words:
        tail = 10 + len(body)
        body += bytes([before, len(word)]) + word
        before = len(word) + 2
    return text(struct.pack("<IIH", 11 + len(body), tail, len(words)) + body + b"\xff")


def intset(*numbers: int) -> bytes:
    return text(struct.pack(f"<II{len(numbers)}h", 2, len(numbers), *numbers))


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
}
STRING = b"\0" + text(b"k") + text(b"v")
SELECT, END = b"\xfe\0", b"\xff" + bytes(8)
FILES: dict[str, bytes] = {
    name: b"REDIS%04d" % (9 if kind < 16 or kind > 30 else 10 if kind < 19 else 12)
    + SELECT
    + bytes([kind])
    + text(b"h")
    + content
    + STRING
    + END
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


def loaded(kind: str, folder: Path) -> dict[str, object]:
    """By file, the keys that a server has from it and their encodings, or that it refuses it."""
    out: dict[str, object] = {}
    with start_server(kind, "--enable-debug-command", "yes", folder=folder) as server:
        for name, file in FILES.items():
            if kind.endswith(("7", "7.0")) and file[7:9] == b"12":
                continue  # Rillet reads newer files as any version
            (folder / "dump.rdb").write_bytes(file)
            with server.wire() as wire:
                try:
                    if wire.call("DEBUG", "RELOAD", "NOSAVE").kind == "-":
                        out[name] = REFUSED
                        continue
                    keys = sorted(wire.call("KEYS", "*").plain())
                    out[name] = [(key, wire.call("OBJECT", "ENCODING", key).value) for key in keys]
                except (ConnectionClosedError, ConnectionError):
                    out[name] = REFUSED
                    (folder / "dump.rdb").unlink()
                    server.restart()
    return out


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_defects_are_forgiven_and_refused_as_the_real_server_does(mine, real, tmp_path):
    got, wanted = (loaded(kind, _made(tmp_path / kind)) for kind in (mine, real))
    wrong = [f"{name}: {got[name]}, real {wanted[name]}" for name in wanted if got[name] != wanted[name]]
    assert not wrong, f"{len(wrong)} of {len(FILES)}:\n" + "\n".join(wrong)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
