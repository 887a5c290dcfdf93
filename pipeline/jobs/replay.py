"""``rillet pipeline replay SOURCE --stream orders --to orders-again``: add past entries to a stream, each once.

With their own ids (the default) an interrupted replay continues after the target's last id. With new ids it continues
where it was, too, because each transaction adds a chunk of entries and records the last id (``rillet:replay:…`` beside
the target). ``--rate`` limits entries per second; ``--speed 2`` keeps the time between the ids, at double speed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final

from ..cli.argument_types import argument
from ..folders import local_folder
from ..ledger.entries import Entry
from ..redis import ids
from ..redis.cluster import key_in_slot_of
from ..redis.connection import Connection, checked
from ..redis.key_names import key_of, name_of, printable_name
from ..redis.shards import connect
from ..redis.stream_state import fetch_states
from ..times import parse_time
from .entries import read_entries

_CHUNK: Final = 500
_LONGEST_CHUNK_SECONDS: Final = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``replay``."""
    from ..cli.endpoint_arguments import add_endpoint_arguments

    parser.add_argument("source", metavar="SOURCE", help="the --out of an ingest job, or an appendonlydir")
    parser.add_argument("--stream", required=True, help="whose entries")
    parser.add_argument(
        "--source-db", type=int, default=0, metavar="N", help="its database in an append-only file"
    )
    parser.add_argument("--to", metavar="STREAM", help="where to (default: the stream of the same name)")
    parser.add_argument(
        "--from",
        dest="first",
        type=argument(_first),
        default=0,
        metavar="ID_OR_TIME",
        help="the first entry, or the time to begin at",
    )
    parser.add_argument(
        "--until",
        dest="last",
        type=argument(_last),
        default=ids.MAX_ID,
        metavar="ID_OR_TIME",
        help="the last entry, or the time to end before",
    )
    parser.add_argument(
        "--ids", choices=("keep", "new"), default="keep", help="keep the ids, or let the server give new ones"
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=argument(_pace), metavar="N", help="so many entries a second")
    pace.add_argument("--speed", type=argument(_pace), metavar="X", help="as they came, X times as fast")
    add_endpoint_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay past entries of a stream into a stream, and return the exit status."""
    from ..cli.endpoint_arguments import endpoint_options
    from ..redis.options import Endpoint

    first, last = arguments.first, arguments.last
    source = local_folder(arguments.source)
    entries = read_entries(source, arguments.stream, first, last, db=arguments.source_db)
    name = arguments.to or arguments.stream
    target = key_of(name)
    marker = None
    if arguments.ids == "new":
        marker = _marker(target, source, arguments.stream, first, last, arguments.source_db)
    with connect(Endpoint.of(endpoint_options(arguments)), at_start=True) as connection:
        portions = chunks(paced(entries, arguments.rate, arguments.speed))
        sent, old = send(connection, target, marker, portions)
    there = f"; {old:,} were there already" if old else ""
    sys.stdout.write(f"{sent:,} entries went into {printable_name(name)}{there}\n")
    return 0


def paced(entries: Iterable[Entry], rate: float | None, speed: float | None) -> Iterator[Entry]:
    """Yield entries at ``rate`` per second, or at ``speed`` times the pace of their ids, or without pauses."""
    begun, origin = time.monotonic(), None
    for number, entry in enumerate(entries):
        ms, _ = ids.split(entry.stream_id)
        origin = ms if origin is None else origin
        due = number / rate if rate else (ms - origin) / 1000 / speed if speed else 0
        if (early := begun + due - time.monotonic()) > 0:
            time.sleep(early)
        yield entry


def chunks(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in lists: the ones that arrive within 0.1 s, at most 500."""
    chunk: list[Entry] = []
    begun = time.monotonic()
    for entry in entries:
        chunk.append(entry)
        if len(chunk) >= _CHUNK or time.monotonic() - begun >= _LONGEST_CHUNK_SECONDS:
            yield chunk
            chunk, begun = [], time.monotonic()
    if chunk:
        yield chunk


def send(
    connection: Connection, target: bytes, marker: bytes | None, portions: Iterable[list[Entry]]
) -> tuple[int, int]:
    """Add to the target stream the entries that it does not have yet.

    Return the number of added entries, and of entries that the target already had.
    Raises RedisError: the server refuses an entry, or is unreachable; the replay may be started again.
    ``marker``: the key that keeps the last id sent; each transaction sets it, and adds entries with new ids. None:
    entries keep their ids, and the target has the ones up to its last id.
    """
    sent = old = 0
    top = _last_id(connection, target) if marker is None else ids.parse(connection.call("GET", marker) or "0")
    for portion in portions:
        fresh = [entry for entry in portion if entry.stream_id > top]
        old += len(portion) - len(fresh)
        if not fresh:
            continue
        top = fresh[-1].stream_id
        adds: list[tuple[str | bytes, ...]] = [
            ("XADD", target, "*" if marker else ids.text(each.stream_id), *each.words) for each in fresh
        ]
        if marker is None:
            checked(connection.pipeline(adds))
        else:
            replies = connection.pipeline([("MULTI",), *adds, ("SET", marker, ids.text(top)), ("EXEC",)])
            checked(checked(replies)[-1])
        sent += len(fresh)
    return sent, old


def _last_id(connection: Connection, target: bytes) -> int:
    (now,) = fetch_states(connection, [name_of(target)]).values()
    return -1 if now is None else now.last


def _marker(target: bytes, source: Path, stream: str, first: int, last: int, db: int) -> bytes:
    """Return a key that is unique to one replay, in the target's hash slot."""
    what = f"{source.resolve()} {db} {stream} {first} {last}"
    digest = hashlib.sha256(key_of(what)).hexdigest()[:16]
    return key_in_slot_of(target, "rillet:replay:", f":{digest}")


def _pace(word: str) -> float:
    """Parse a positive rate or speed."""
    with suppress(ValueError):
        if 0 < (number := float(word)) < inf:
            return number
    raise ValueError(f"takes a number above 0, not {word!r}")


def _first(word: str) -> int:
    """Parse an id (``5-0``), or return the first id of a moment: milliseconds or an ISO time."""
    return ids.parse(word) if _is_id(word) else ids.from_ms(parse_time(word))


def _last(word: str) -> int:
    """Parse an id, or return the last id before a moment."""
    return _first(word) if _is_id(word) else max(_first(word) - 1, 0)


def _is_id(word: str) -> bool:
    return "-" in word and word.replace("-", "", 1).isdigit()
