"""How fast the ledger reads an append-only file, one core, against hiredis that only parses it: MB of file a second.

`measure()` makes a file of the records that a busy consumer group leaves and times both, in turns; run alone it
prints them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import hiredis

from rillet.pipeline.ledger.parse import Piece, read_piece

ENTRIES = 250_000


def record(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def write_file(folder: Path, entries: int = ENTRIES, *, annotations: bool = False) -> Path:
    """Entries of four fields, read in tens by four consumers, acknowledged but for some that are claimed first."""
    path = folder / "appendonly.aof.1.incr.aof"
    multi, execute = record(b"MULTI"), record(b"EXEC")
    now = 1_790_000_000_000
    with path.open("wb") as file:
        file.write(
            record(b"SELECT", b"0") + record(b"XGROUP", b"CREATE", b"orders", b"billing", b"0", b"MKSTREAM")
        )
        for start in range(0, entries, 10):
            ids = [b"%d-%d" % (now + start, number) for number in range(10)]
            more = (
                b"customer", b"c-%d" % (start % 977), b"amount", b"%d" % start, b"currency", b"EUR",
                b"note", b"n" * (start % 60),
            )  # fmt: skip
            pieces = [record(b"XADD", b"orders", entry_id, *more) for entry_id in ids]
            consumer = b"worker-%d" % (start // 10 % 4)
            head = (b"XCLAIM", b"orders", b"billing")
            tail = (b"FORCE", b"JUSTID", b"LASTID")
            if annotations:
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
            if annotations:
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


def measure(entries: int = ENTRIES, rounds: int = 3, *, annotations: bool = False) -> dict[str, float]:
    """MB/s (10^6 bytes, CPU seconds of one core) of both, their ratio, and events a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), entries, annotations=annotations)
        megabytes = path.stat().st_size / 1e6
        parsing, reading, rows = [], [], 0
        for _ in range(rounds):
            if not annotations:
                began = time.process_time()
                parse_only(path)
                parsing.append(time.process_time() - began)
            began = time.process_time()
            rows = sum(batch.num_rows for batch in read_piece(Piece(str(path), 1)))
            reading.append(time.process_time() - began)
    found = {
        "megabytes": megabytes,
        "ledger_mb_s": megabytes / min(reading),
        "ledger_events_s": rows / min(reading),
    }
    if parsing:
        found["hiredis_mb_s"] = megabytes / min(parsing)
        found["ratio"] = min(parsing) / min(reading)
    return found


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:16} {value:12,.2f}")
    print(f"{'annotated':16} {measure(annotations=True)['ledger_mb_s']:12,.2f}")
