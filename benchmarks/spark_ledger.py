"""How fast the ledger reads an append-only file, one core, against hiredis that only parses it: MB of file a second.

`measure()` makes a file of the records that a busy consumer group leaves and times both, in turns; run alone it
prints that for several kinds of files, or for the files that are named.

python benchmarks/spark_ledger.py [FILE …]
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import hiredis

from rillet.pipeline.ledger.files.piece import FilePiece, read_piece

ENTRIES: Final = 250_000

# What is written differently in which kind of file.
KINDS: Final = {
    "usual": "as in `make bench-spark`",
    "annotated": "with #MS: lines",
    "varied": "each value of another length",
    "binary": "random bytes as values",
    "limited": "each XADD with MAXLEN = n, as servers write MAXLEN ~",
    "both": "varied and limited",
}


def record(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def write_file(folder: Path, entries: int = ENTRIES, kind: str = "usual") -> Path:
    """Entries of four fields, read in tens by four consumers, acknowledged but for some that are claimed first."""
    path = folder / "appendonly.aof.1.incr.aof"
    multi, execute = record(b"MULTI"), record(b"EXEC")
    chance = random.Random(1)
    limit = (b"MAXLEN", b"=", b"100000") if kind in {"limited", "both"} else ()
    now = 1_790_000_000_000
    with path.open("wb") as file:
        file.write(
            record(b"SELECT", b"0") + record(b"XGROUP", b"CREATE", b"orders", b"billing", b"0", b"MKSTREAM")
        )
        for start in range(0, entries, 10):
            ids = [b"%d-%d" % (now + start, number) for number in range(10)]
            pieces = []
            for entry_id in ids:
                note = b"n" * (start % 60)
                if kind in {"varied", "both"}:
                    note = b"n" * chance.randrange(120)
                elif kind == "binary":
                    note = chance.randbytes(chance.randrange(60))
                more = (
                    b"customer", b"c-%d" % (start % 977), b"amount", b"%d" % start, b"currency", b"EUR", b"note", note,
                )  # fmt: skip
                pieces.append(record(b"XADD", b"orders", *limit, entry_id, *more))
            consumer = b"worker-%d" % (start // 10 % 4)
            head = (b"XCLAIM", b"orders", b"billing")
            tail = (b"FORCE", b"JUSTID", b"LASTID")
            if kind == "annotated":
                pieces.append(b"#MS:%d\r\n" % (now + start + 3))
            pieces.append(multi)
            time_words = (b"TIME", b"%d" % (now + start + 3), b"RETRYCOUNT")
            pieces += [
                record(*head, consumer, b"0", entry_id, *time_words, b"1", *tail, entry_id)
                for entry_id in ids
            ]
            pieces.append(
                record(b"XGROUP", b"SETID", b"orders", b"billing", ids[-1], b"ENTRIESREAD", b"%d" % start)
            )
            pieces.append(execute)
            if start % 70 == 0:
                pieces += [
                    record(*head, b"rescue", b"0", entry_id, *time_words, b"2", *tail, ids[-1])
                    for entry_id in ids
                ]
            if kind == "annotated":
                pieces.append(b"#MS:%d\r\n" % (now + start + 9))
            pieces.append(record(b"XACK", b"orders", b"billing", *ids))
            file.write(b"".join(pieces))
    return path


def parse_only(path: Path) -> int:
    """What hiredis needs for the same commands."""
    reader, commands = hiredis.Reader(), 0
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            reader.feed(data)
            while reader.gets() is not False:
                commands += 1
    return commands


def measure(entries: int = ENTRIES, rounds: int = 3, kind: str = "usual") -> dict[str, float]:
    """As ``measure_file``, for a file of one of the kinds."""
    with tempfile.TemporaryDirectory() as folder:
        return measure_file(write_file(Path(folder), entries, kind), rounds)


def measure_file(path: Path, rounds: int = 3) -> dict[str, float]:
    """MB/s (10^6 bytes, CPU seconds of one core) of both, their ratio, and events a second."""
    megabytes = path.stat().st_size / 1e6
    plain = without_annotations(path)
    parsing, reading, rows = [], [], 0
    for _ in range(rounds):
        began = time.process_time()
        parse_only(plain)
        parsing.append(time.process_time() - began)
        began = time.process_time()
        rows = sum(batch.num_rows for batch in read_piece(FilePiece(str(path), 1)))
        reading.append(time.process_time() - began)
    return {
        "megabytes": megabytes,
        "ledger_mb_s": megabytes / min(reading),
        "ledger_events_s": rows / min(reading),
        "hiredis_mb_s": megabytes / min(parsing),
        "ratio": min(parsing) / min(reading),
    }


def without_annotations(path: Path) -> Path:
    """The file, or a copy of it that hiredis can read."""
    data = path.read_bytes()
    if b"\n#MS:" not in data and b"#TS:" not in data:
        return path
    plain = Path(tempfile.mkdtemp()) / "plain"
    plain.write_bytes(re.sub(rb"(?m)^#[MT]S:[0-9]+\r\n", b"", data))
    return plain


def main(files: list[str]) -> None:
    """Print what was measured."""
    for name in files or KINDS:
        found = measure_file(Path(name)) if files else measure(kind=name)
        print(
            f"{name:12} {found['megabytes']:6.1f} MB  ledger {found['ledger_mb_s']:6.1f} MB/s"
            f"  hiredis {found['hiredis_mb_s']:6.1f} MB/s  ratio {found['ratio']:.2f}"
            f"  {found['ledger_events_s']:12,.0f} events/s",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
