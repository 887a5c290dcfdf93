"""Values of every type and encoding as commands, and the corpus that real servers make of them.

`PYTHONPATH=tests python tests/fuzz/values.py NAME PORT` writes what the server on that port makes of them into
corpus/restore and corpus/rdb; commands and options it does not know are left out.
"""

import sys
from pathlib import Path
from typing import Final

from fuzz.engine import CORPUS, parse_lines
from support.wire import Wire

_LONG: Final = "a value that is long enough to be compressed " * 3
_MANY: Final = range(140)

# A name that is a sentence, and the commands that make the key `k` so.
VALUES: Final = {
    "a-short-string": "SET k abc",
    "a-number-of-16-bits": "SET k -12345",
    "a-string-that-compresses": f'SET k "{_LONG}"',
    "a-list-of-one-node": "RPUSH k a 1 -300 70000 5000000000 bcd",
    "a-list-of-many-nodes": "RPUSH k "
    + " ".join(f"element-{number}-{number * 7919}" * 9 for number in range(40)),
    "a-set-of-numbers": "SADD k 1 2 300 -4 70000",
    "a-set-of-large-numbers": "SADD k 1 5000000000 -9223372036854775808",
    "a-set-of-words": "SADD k a b c 1",
    "a-set-as-a-table": "SADD k " + " ".join(f"m{number}" for number in _MANY),
    "a-hash-of-few-fields": "HSET k f v n 1 g 300",
    "a-hash-as-a-table": "HSET k "
    + " ".join(f"f{number} {number}" for number in _MANY)
    + f'\nHSET k big "{_LONG}"',
    "a-hash-whose-fields-expire": "HSET k f v g w h x\nHPEXPIREAT k 33177117420123 FIELDS 2 f g",
    "a-large-hash-whose-fields-expire": f'HSET k f v g w h "{_LONG}"\nHPEXPIREAT k 33177117420123 FIELDS 2 f g',
    "a-sorted-set-of-few-members": "ZADD k 1 a 2.5 b -inf c inf d 17 e",
    "a-sorted-set-as-a-skip-list": f'ZADD k 1 a 2.5 b -inf c 3e300 d 0.1 "{_LONG}"',
    "a-bitmap": "SETBIT k 77 1",
    "a-hyperloglog": "PFADD k a b c d e f",
    "a-geo-set": "GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "a-stream-of-a-few-entries": "XADD k 1-1 f v\nXADD k 1-2 f v g w\nXADD k 5-0 f x",
    "a-stream-of-many-nodes": "\n".join(
        f"XADD k {number}-{number % 3} field value-{number} other {number}" for number in range(1, 250)
    ),
    "a-stream-with-holes": "\n".join(f"XADD k {number}-0 f v" for number in range(1, 20))
    + "\nXDEL k 3-0 4-0 19-0",
    "a-stream-with-groups-and-pending-entries": "\n".join(
        f"XADD k {number}-0 f v{number}" for number in range(1, 9)
    )
    + "\nXGROUP CREATE k g 0\nXGROUP CREATE k h 5-0\nXREADGROUP GROUP g bob COUNT 3 STREAMS k >"
    + "\nXREADGROUP GROUP g amy COUNT 2 STREAMS k >\nXGROUP CREATECONSUMER k h idle\nXACK k g 2-0\nXDEL k 3-0",
    "a-stream-that-was-emptied": "XADD k 7-7 f v\nXGROUP CREATE k g $\nXDEL k 7-7",
    "a-stream-with-idempotent-producers": "XADD k IDMP p1 i1 * f v\nXADD k IDMP p2 i1 * f w\nXCFGSET k IDMP-DURATION 100 IDMP-MAXSIZE 100",
    "a-stream-with-entries-given-back": "XADD k 1-0 f v\nXADD k 2-0 f v\nXGROUP CREATE k g 0\nXREADGROUP GROUP g bob STREAMS k >\nXNACK k g FAIL IDS 1 1-0",
}


def make(wire: Wire, commands: str) -> bool:
    """Make one of the values; False where the server does not know how to."""
    wire.call("DEL", "k")
    return all(wire.call(*words).kind != "-" for words in parse_lines(commands.encode()))


def payloads(wire: Wire) -> dict[str, bytes]:
    """What DUMP gives for each value."""
    found = {}
    for name, commands in VALUES.items():
        if make(wire, commands):
            payload = wire.call("DUMP", "k").plain()
            assert isinstance(payload, bytes)
            found[name] = payload
    wire.call("DEL", "k")
    return found


def file(wire: Wire, folder: Path) -> bytes:
    """A dump file with all small values, times to live, a library and a second database in it."""
    wire.call("FLUSHALL")
    for number, commands in enumerate(VALUES.values()):
        if len(commands) < 1000 and make(wire, commands):
            wire.call("RENAME", "k", f"k{number}")
    wire.call("PEXPIREAT", "k0", 33177117420123)
    wire.call("PEXPIREAT", "k3", 33177117420123)
    wire.call("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
    wire.call("SELECT", 3)
    wire.call("SET", "k", "v")
    wire.call("SELECT", 0)
    assert wire.call("SAVE").value == b"OK"
    wire.call("FLUSHALL")
    return (folder / "dump.rdb").read_bytes()


def main(kind: str, port: str) -> None:
    from support.wire import Wire

    with Wire(int(port)) as wire:
        folder = wire.call("CONFIG", "GET", "dir").plain()[1].decode()
        for name, payload in payloads(wire).items():
            (CORPUS / "restore" / f"{name}-of-{kind}").write_bytes(payload)
        (CORPUS / "rdb" / f"a-file-of-{kind}").write_bytes(file(wire, Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
