"""Run many XADDs of one batch in one step, with the same result as ``xadd`` one by one.

This is the fast path for pipelines and for loading files.
"""

from __future__ import annotations

from itertools import islice, pairwise, repeat, starmap
from operator import itemgetter, lt
from typing import Final

from ...storage.streams.bulk_append import append_encoded
from ...storage.streams.chunk import LARGE
from ...storage.streams.chunk_codec import Encoded, encoded_entries, with_ids
from ...storage.streams.ids import MAX_U64
from ...storage.streams.stream import Stream
from ...storage.streams.trimming import trim, trims_far
from ..runtime.client import Client
from ..spec.command import SHORTEST_RUN, handles_batches
from . import specs
from .trim_options import default_limit, untrimmed
from .xadd import encode_fields

_DIGITS: Final = 20  # of the greatest 64-bit number
_ZERO: Final = ord("0")
_FIRST: Final = 16  # IDs in the first piece; each further piece has four times as many


@handles_batches(specs.XADD)
def xadd_batch(client: Client, batch: list[list[bytes]], at: int) -> list[bytes] | None:
    """Run successive ``XADD key [MAXLEN ~ n] * | id field value …`` of a batch, all for one key.

    This is possible only if no client could tell it from single XADDs (by waiting for keys, watching keys, or
    receiving events). It stops before an XADD that would fail.

    Return the encoded replies; None, without any effect, if it could run fewer than ``SHORTEST_RUN`` commands.

    Args:
        client: a plain client, or the loader.
        batch: commands with a valid arity.
    """
    verb, name, new_id = batch[at][:3]
    if not _is_run(batch, at):
        return None
    stream = _unobserved_stream(client, name)
    if stream is None:
        return None
    if new_id == b"*":
        added = _add_generated(client, stream, batch, at)
    elif new_id[:1].isdigit():
        added = _add_given(client, stream, batch, at)
    elif new_id == b"MAXLEN":
        added = _add_trimming(client, stream, batch, at)
    else:
        return None
    if added is None:
        return None

    db = client.db
    for _ in added.ids if db.meter is not None else added.ids[:1]:
        db.write(name)  # LFU counts each access
    if db.meter is not None:
        db.meter.note_modified(db, name)
    db.keyspace.dirty += len(added.ids)
    propagation = client.server.propagation
    if propagation.active:
        records = _records(verb, name, added)
        if client.in_exec:
            propagation.effects += zip(repeat(db.index), records)
        else:
            propagation.flush_units(db.index, records)
    return added.ids


def _is_run(batch: list[list[bytes]], at: int) -> bool:
    """Return True if the shortest run may begin at ``at``; this avoids encoding fields in vain."""
    stop = at + SHORTEST_RUN
    if stop > len(batch):
        return False
    verb, name, new_id = batch[at][:3]
    has_id = new_id[:1].isdigit()
    for args in batch[at + 1 : stop]:
        if len(args) < 3 or args[1] != name or args[0] != verb or not (has_id or args[2] == new_id):
            return False
    return True


class _Added:
    """The entries of a run."""

    __slots__ = ("fields", "ids", "lengths")

    def __init__(self, ids: list[bytes], fields: list[bytes], lengths: list[int] | None = None) -> None:
        self.ids = ids  # the replies (not encoded while a file is loaded, because nothing reads them)
        self.fields = fields  # the encoded fields; empty if nothing is propagated
        self.lengths = lengths  # with MAXLEN, the length of the stream after each entry; else None


def _records(verb: bytes, name: bytes, added: _Added) -> list[bytes]:
    key = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(verb), verb, len(name), name)
    records: list[bytes] = []
    if added.lengths is None:
        for new, encoded in zip(added.ids, added.fields, strict=True):
            count, rest = encoded.split(b"\r\n", 1)
            records.append(b"*%d\r\n%b%b%b" % (int(count[1:]) + 3, key, new, rest))
        return records
    key += b"$6\r\nMAXLEN\r\n$1\r\n=\r\n"
    for new, encoded, length in zip(added.ids, added.fields, added.lengths, strict=True):
        count, rest = encoded.split(b"\r\n", 1)
        word = b"%d" % length
        records.append(b"*%d\r\n%b$%d\r\n%b\r\n%b%b" % (int(count[1:]) + 6, key, len(word), word, new, rest))
    return records


# These return None, without any effect, if the run is too short.


def _add_generated(client: Client, stream: Stream, batch: list[list[bytes]], at: int) -> _Added | None:
    """Add the entries of a run of ``XADD key *``."""
    # In a pipeline of 16, an XADD takes 2.1 us, and 3.8 us without this function.
    fields = _fields(batch, at, 3)
    ms, seq = _next_id(client, stream)
    if len(fields) < SHORTEST_RUN or seq + len(fields) > MAX_U64:
        return None
    config = client.server.config
    ids = stream.append_run(ms, seq, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    return _Added(ids, fields)


def _add_trimming(client: Client, stream: Stream, batch: list[list[bytes]], at: int) -> _Added | None:
    """Add the entries of a run of ``XADD key MAXLEN ~ n *``, and trim whenever a single XADD would trim."""
    # In a pipeline of 16, an XADD takes 3.0 us, and 5.5 us without this function.
    _, operator, number, star = batch[at][2:6]
    if (
        operator != b"~"
        or star != b"*"
        or not _is_number(number)
        or len(number) > _DIGITS - 2
        or client.replays
    ):
        return None
    threshold = int(number)
    config = client.server.config
    limit = default_limit(config.stream_node_max_entries)
    if trims_far(stream, True, threshold, limit):  # checked first, to avoid encoding all fields in vain
        return None
    fields = _fields(batch, at, 6)
    ms, seq = _next_id(client, stream)
    if len(fields) < SHORTEST_RUN or seq + len(fields) > MAX_U64:
        return None
    ids: list[bytes] = []
    lengths: list[int] = []
    while len(ids) < len(fields) and not trims_far(stream, True, threshold, limit):
        begun = len(ids)
        some = fields[begun : begun + 1 + max(untrimmed(stream, threshold), 0)]
        lengths += range(stream.length + 1, stream.length + len(some) + 1)
        ids += stream.append_run(
            ms, seq + begun, some, config.stream_node_max_bytes, config.stream_node_max_entries
        )
        if trim(stream, threshold, approximate=True, limit=limit):
            lengths[-1] = stream.length
    return _Added(ids, fields[: len(ids)], lengths) if ids else None


def _fields(batch: list[list[bytes]], at: int, start: int) -> list[bytes]:
    """Encode the fields, from word ``start`` on, of the leading commands that share all words before it."""
    same = batch[at][:start]
    fields: list[bytes] = []
    for args in islice(batch, at, None):
        words = args[start:]
        if len(words) < 2 or len(words) & 1 or args[:start] != same:
            break
        encoded = encode_fields(words)
        if len(encoded) >= LARGE:
            break
        fields.append(encoded)
    return fields


def _next_id(client: Client, stream: Stream) -> tuple[int, int]:
    """Return the ID that ``*`` would get now, as ms and sequence."""
    last = stream.last_id
    now = client.db.keyspace.now
    return (now, 0) if now > last >> 64 else (last >> 64, (last & MAX_U64) + 1)


def _add_given(client: Client, stream: Stream, batch: list[list[bytes]], at: int) -> _Added | None:
    """Add the entries of a run of ``XADD key id``."""
    # IDs and values are processed in columns. With a Python step for each ID and entry, a file of only XADDs of three fields
    # takes 1.22 times as long to load (IDs alone 1.08, fields alone 1.19), and a workers' file of Redis 8.10.2 1.08 times
    # (medians of 7 pairs, processor time, 2026-11-29).
    verb, name = batch[at][:2]
    run: list[list[bytes]] = []
    ms: list[int] = []
    seq: list[int] = []
    last_id, size = stream.last_id, _FIRST
    # The IDs are checked in pieces, which costs 5 % of a long run. When each run walked to the end of the batch, a
    # pipeline that was sent twice, so that each ID was refused, took 150 us a command instead of 40 (2026-11-29).
    while True:
        begin = at + len(run)
        some = _alike(batch[begin : begin + size], verb, name)
        more_ms, more_seq = _ascending([args[2] for args in some], last_id)
        run += some[: len(more_ms)]
        ms += more_ms
        seq += more_seq
        if len(more_ms) < size or begin + size >= len(batch):
            break
        last_id = ms[-1] << 64 | seq[-1]
        size *= 4
    if len(run) < SHORTEST_RUN:
        return None
    words = [args[2] for args in run]
    encoded, fields = _encoded(words, run)
    if max(map(len, encoded.entries)) >= LARGE:
        number = next(index for index, entry in enumerate(encoded.entries) if len(entry) >= LARGE)
        if number < SHORTEST_RUN:
            return None
        del words[number:], ms[number:], seq[number:], run[number:]
        encoded, fields = _encoded(words, run)
    config = client.server.config
    append_encoded(stream, ms, seq, encoded, config.stream_node_max_bytes, config.stream_node_max_entries)
    is_recorded = client.server.propagation.active
    if client.replays and not is_recorded:
        return _Added(words, [])  # nothing reads the replies
    ids = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return _Added(ids, fields or encoded.fields() if is_recorded else [])


def _alike(commands: list[list[bytes]], verb: bytes, name: bytes) -> list[list[bytes]]:
    """Return the leading commands that are ``XADD key id field value …`` for one key."""
    width = 0
    for number, args in enumerate(commands):
        if len(args) != width:
            width = len(args)
            if width < 5 or not width & 1:
                return commands[:number]
        if args[1] != name or args[0] != verb:
            return commands[:number]
    return commands


def _ascending(words: list[bytes], last_id: int) -> tuple[list[int], list[int]]:
    """Return the leading IDs that are canonical and ascend from ``last_id``, as lists of ms and sequences."""
    if not words:
        return [], []
    # Check all IDs together; if one fails, check them one by one.
    text = b"\n".join(words)
    parts = text.replace(b"\n", b"-").split(b"-")
    if (
        text.translate(None, b"0123456789") == (b"-\n" * len(words))[:-1]  # two numbers in each word
        and b"" not in parts
        and max(map(len, parts)) < _DIGITS
        and list(map(itemgetter(0), parts)).count(_ZERO) == parts.count(b"0")
    ):
        numbers = list(map(int, parts))
        ms, seq = numbers[::2], numbers[1::2]
        if ms[0] << 64 | seq[0] > last_id and (
            all(map(lt, ms, islice(ms, 1, None))) or all(starmap(lt, pairwise(zip(ms, seq, strict=True))))
        ):
            return ms, seq
    ms, seq = [], []
    last = last_id >> 64, last_id & MAX_U64
    for word in words:
        one, _, other = word.partition(b"-")
        if not (_is_number(one) and _is_number(other)) or (new := (int(one), int(other))) <= last:
            break
        ms.append(new[0])
        seq.append(new[1])
        last = new
    return ms, seq


def _encoded(words: list[bytes], run: list[list[bytes]]) -> tuple[Encoded, list[bytes] | None]:
    """Encode the entries of a run; also return their encoded fields if these were encoded one by one."""
    if len(set(map(len, run))) == 1:
        columns = list(zip(*run, strict=True))
        names = columns[3::2]
        if all(each.count(each[0]) == len(run) for each in names):
            return encoded_entries(words, [each[0] for each in names], columns[4::2]), None
    fields = [encode_fields(args[3:]) for args in run]
    return with_ids(words, fields), fields


def _unobserved_stream(client: Client, name: bytes) -> Stream | None:
    """Return the stream at a key; None if it is missing, or if a client could tell a run from single XADDs."""
    db = client.db
    keyspace = db.keyspace
    stream = db.entries.get(name)
    if (
        type(stream) is not Stream
        or name in db.expires
        or db.awaited
        or db.watched
        or keyspace.notify_mask
        or keyspace.on_modified is not None
    ):
        return None
    return stream


def _is_number(word: bytes) -> bool:
    """Return True if the word is a number as Redis writes it and surely fits 64 bits."""
    return word.isdigit() and len(word) < _DIGITS and (not word.startswith(b"0") or word == b"0")
