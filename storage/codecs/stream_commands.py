"""Streams as commands, for a rewritten append-only file, spelled as Redis does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ...protocol.replies import command
from ..groups.lag import written_entries_read
from ..streams.ids import encode
from ..streams.iteration import iter_entries

if TYPE_CHECKING:
    from ..groups.group import Group
    from ..streams.stream import Stream
    from .codec import Defaults

_IDS_GIVEN_BACK: Final = 64  # most IDs in one XNACK
_ID_AND_COMMAND: Final = 3  # the arguments of an XADD before its fields


def stream_commands(stream: Stream, key: bytes, defaults: Defaults) -> Iterator[bytes]:
    """Yield the encoded commands that recreate a stream; see ``aof/rewrite.py`` for the state that they cannot express.

    Args:
        stream: the stream; it must not change during the iteration.
        defaults: duration and maxsize of a new stream; a stream with these settings needs no XCFGSET.
    """
    if stream.length:
        yield from _entries(key, stream)
    else:
        # Create the stream empty: MAXLEN 0 removes the entry, and no stream can already contain 0-1.
        yield _command(b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y")
    yield _command(
        b"XSETID",
        key,
        encode(stream.last_id),
        b"ENTRIESADDED",
        b"%d" % stream.entries_added,
        b"MAXDELETEDID",
        encode(stream.max_deleted_id),
    )
    for name in sorted(stream.groups):
        yield from _group(key, name, stream, stream.groups[name])
    for words in _idempotency(key, stream, *defaults):
        yield _command(*words)


def _entries(key: bytes, stream: Stream) -> Iterator[bytes]:
    name = b"$4\r\nXADD\r\n" + _word(key)
    heads: dict[bytes, tuple[bytes, int]] = {}  # by the header of the field array; few differ
    for _, text, fields in iter_entries(stream):
        header = fields[: fields.index(b"\n") + 1]
        head = heads.get(header)
        if head is None:
            if len(heads) > 1000:
                heads.clear()
            head = heads[header] = (b"*%d\r\n%b" % (int(header[1:-2]) + _ID_AND_COMMAND, name), len(header))
        yield b"%b$%d\r\n%b\r\n%b" % (head[0], len(text), text, fields[head[1] :])


def _group(key: bytes, name: bytes, stream: Stream, group: Group) -> Iterator[bytes]:
    entries_read = written_entries_read(stream, group.entries_read)
    read = b"-1" if entries_read is None else b"%d" % entries_read
    yield _command(b"XGROUP", b"CREATE", key, name, encode(group.last_id), b"ENTRIESREAD", read)
    for consumer_name in sorted(group.consumers):
        consumer = group.consumers[consumer_name]
        if not consumer.pending:
            yield _command(b"XGROUP", b"CREATECONSUMER", key, name, consumer_name)
            continue
        head = b"*12\r\n$6\r\nXCLAIM\r\n%b%b%b$1\r\n0\r\n" % (_word(key), _word(name), _word(consumer_name))
        last, tail = (-1, -1), b""
        for entry in group.pel.order_of(consumer).walk():
            if (entry.ms, entry.count) != last:  # entries delivered together share both
                last = entry.ms, entry.count
                tail = b"$4\r\nTIME\r\n%b$10\r\nRETRYCOUNT\r\n%b$6\r\nJUSTID\r\n$5\r\nFORCE\r\n" % (
                    _word(b"%d" % entry.ms),
                    _word(b"%d" % entry.count),
                )
            yield b"%b$%d\r\n%b\r\n%b" % (head, len(entry.text), entry.text, tail)
    yield from _given_back(key, name, group)


def _given_back(key: bytes, name: bytes, group: Group) -> Iterator[bytes]:
    """Yield XNACK for the entries without an owner, in order; neighbours with equal counts share a command."""
    for count, of_count in groupby(group.pel.given_back(group.unowned), attrgetter("count")):
        while ids := [entry.text for entry in islice(of_count, _IDS_GIVEN_BACK)]:
            yield _command(
                *(b"XNACK", key, name, b"FAIL", b"IDS", b"%d" % len(ids), *ids),
                *(b"RETRYCOUNT", b"%d" % count, b"FORCE"),
            )


def _command(*words: bytes) -> bytes:
    return command(words)


def _word(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _idempotency(key: bytes, stream: Stream, duration: int, maxsize: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the commands that recreate a stream's idempotency state, after its entries.

    Args:
        stream: the stream; iids whose entry was removed are left out.
        duration: stream-idmp-duration; a stream with this duration and maxsize needs no XCFGSET.
        maxsize: stream-idmp-maxsize.
    """
    state = stream.idempotency
    if state is None:
        return
    if (state.duration, state.maxsize) != (duration, maxsize):
        yield (
            b"XCFGSET", key, b"IDMP-DURATION", b"%d" % state.duration, b"IDMP-MAXSIZE", b"%d" % state.maxsize,
        )  # fmt: skip
    for pid, known in state.producers.items():
        for iid, stream_id in known.items():
            if stream.contains(stream_id):
                yield b"XIDMPRECORD", key, pid, iid, encode(stream_id)
