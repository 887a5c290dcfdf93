"""The data of a stream that its RDB type cannot express, in a field of our own after it.

Redis and Valkey skip fields that they do not know, so they can still read such a file. The field holds the times when
consumers were last active (type 19 has none), the entries released by XNACK (only type 27 has them; here they are
pending with a consumer without a name) and the ids of idempotent producers (types 26 and 27 have them).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..groups.group import Group
from ..groups.pending import UNOWNED_MS
from ..loading import RdbError
from ..streams.idempotency import Idempotency
from ..streams.ids import are_distinct
from ..streams.stream import Stream
from .byte_source import ByteSource
from .encoding import encode_length, encode_string, read_length, read_string

FIELD: Final = b"rillet-stream"
NO_OWNER: Final = b""  # the consumer of entries without an owner
_FORMAT: Final = 1
FIRST_WITH_PRODUCERS: Final = 13  # versions of RDB
FIRST_WITH_UNOWNED: Final = 14
_WITH_ACTIVE_TIMES: Final = 21  # stream types
_WITH_PRODUCERS: Final = 26
_WITH_UNOWNED: Final = 27


def encode_extras(stream: Stream, stream_type: int) -> bytes:
    """Return the content of the field for a stream written with a type byte; empty if it is not needed."""
    groups = [(name, group) for name, group in stream.groups.items() if _adds(group, stream_type)]
    state = stream.idempotency if stream_type < _WITH_PRODUCERS else None
    if not groups and state is None:
        return b""
    out = [bytes((_FORMAT,)), encode_length(len(groups))]
    for name, group in groups:
        out.append(encode_string(name) + encode_length(len(group.consumers)))
        out += (
            encode_string(each.name) + each.active_ms.to_bytes(8, "little", signed=True)
            for each in group.consumers.values()
        )
        unowned = unowned_ids(group)
        out.append(encode_length(len(unowned)) + b"".join(unowned))
    out.append(encode_length(state is not None))
    if state is not None:
        out.append(_encode_state(state))
    return b"".join(out)


def count_extras(stream: Stream, stream_type: int) -> Iterator[tuple[str, int]]:
    """Count the data that other servers lose, by kind: yield a name for the log, and the number of items."""
    if stream_type < _WITH_UNOWNED:
        nacked = sum(group.unowned.pending for group in stream.groups.values())
        yield "marks of entries given back by XNACK", nacked
    if stream_type < _WITH_PRODUCERS and stream.idempotency is not None:
        yield "ids of idempotent producers", sum(map(len, stream.idempotency.producers.values()))


def payload_version(stream: Stream, version: int) -> int:
    """Return the first RDB version, not below ``version``, that can express the whole stream."""
    if any(group.unowned.pending for group in stream.groups.values()):
        return max(version, FIRST_WITH_UNOWNED)
    if stream.idempotency is not None and stream.idempotency.producers:
        return max(version, FIRST_WITH_PRODUCERS)
    return version


def unowned_ids(group: Group) -> list[bytes]:
    """Return the raw IDs of the entries without an owner, in the order in which they wait for a claim."""
    return [entry.number.to_bytes(16, "big") for entry in group.pel.given_back(group.unowned)]


def _adds(group: Group, stream_type: int) -> bool:
    if group.unowned.pending and stream_type < _WITH_UNOWNED:
        return True
    return stream_type < _WITH_ACTIVE_TIMES and any(
        each.active_ms != each.seen_ms for each in group.consumers.values()
    )


def _encode_state(state: Idempotency) -> bytes:
    out = [
        encode_length(number)
        for number in (state.duration, state.maxsize, state.added, state.duplicates, len(state.producers))
    ]
    for pid, known in state.producers.items():
        out.append(encode_string(pid) + encode_length(len(known)))
        out += (encode_string(iid) + stream_id.to_bytes(16, "big") for iid, stream_id in known.items())
    return b"".join(out)


def apply_extras(stream: Stream, data: bytes) -> None:
    """Complete a stream that was just read. Raises RdbError: the field is damaged, or belongs to another stream."""
    source = ByteSource.of(data)
    if source.byte() != _FORMAT:
        return  # written by a later Rillet: the stream is complete without it, as for Redis
    for _ in range(read_length(source)):
        group = stream.groups.get(read_string(source))
        if group is None:
            raise RdbError("A field of Rillet names a consumer group that is not there")
        _apply_to_group(group, source)
    if read_length(source):
        stream.idempotency = _read_state(source)


def _apply_to_group(group: Group, source: ByteSource) -> None:
    real = set()
    for _ in range(read_length(source)):
        name = read_string(source)
        real.add(name)
        if name not in group.consumers:
            raise RdbError("A field of Rillet names a consumer that is not there")
        group.consumers[name].active_ms = int.from_bytes(source.take(8), "little", signed=True)
    numbers = [int.from_bytes(source.take(16), "big") for _ in range(read_length(source))]
    counts = [entry.count for entry in map(group.pel.at, numbers) if entry is not None]
    if not (len(numbers) == len(counts) and are_distinct(numbers)):
        raise RdbError("A field of Rillet names a pending entry that is not there")
    group.give_back(numbers, counts)
    stand_in = group.consumers.get(NO_OWNER)
    if stand_in is not None and NO_OWNER not in real:
        group.delete_consumer(stand_in)


def _read_state(source: ByteSource) -> Idempotency:
    duration, maxsize, added, duplicates = (read_length(source) for _ in range(4))
    state = Idempotency(duration, maxsize)
    for _ in range(read_length(source)):
        pid = read_string(source)
        known = state.producers[pid] = {}
        for _ in range(read_length(source)):
            iid = read_string(source)
            known[iid] = int.from_bytes(source.take(16), "big")
        if not known:
            raise RdbError("A field of Rillet names a producer without ids")
    state.added, state.duplicates = added, duplicates
    return state


def delivery_ms(ms: int) -> int:
    """Return a delivery time for a file: 0 for entries without an owner, else unchanged."""
    return 0 if ms == UNOWNED_MS else ms
