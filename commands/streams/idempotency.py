"""Recognize messages that a producer sends twice: XADD IDMP, XCFGSET, XIDMPRECORD."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, SYNTAX, ReplyError
from ...storage.streams.idempotency import fingerprint
from ...storage.streams.ids import encode, parse
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments
from ..runtime.client import Client
from ..runtime.downgrades import propagate_where_known, where_known
from ..spec.command import handles
from ..spec.versions import IDMP_SINCE
from . import specs
from .trim_options import TrimOptions

NO_PARAMETER: Final = b"ERR At least one parameter must be specified"
TWICE: Final = b"ERR %b specified multiple times"
OUT_OF_BOUNDS: Final = b"ERR %b must be between 1 and %d %b"
EMPTY_PRODUCER: Final = b"ERR producer ID must be non-empty"
EMPTY_IID: Final = b"ERR idempotent ID must be non-empty"
NO_MESSAGE: Final = b"ERR No such message in stream"
OTHER_ENTRY: Final = b"ERR IID already exists for this producer with a different stream ID"

# Each parameter's greatest value, and its unit.
_PARAMETERS: Final = {b"IDMP-DURATION": (86400, b"seconds"), b"IDMP-MAXSIZE": (10000, b"entries")}


def answer_duplicate(
    client: Client, args: list[bytes], options: TrimOptions, words: list[bytes]
) -> bytes | None:
    """Return the reply to a duplicate XADD, the encoded ID of the first one; None if the message is new.

    For IDMPAUTO, compute the idempotent ID (iid) and store it in ``options``. A duplicate is propagated as sent, so that
    a replay counts it as a duplicate. Therefore a replayed ``*`` is a duplicate even if its iid is no longer known, and a
    replayed explicit ID is none even if its iid is still known.
    """
    if not options.iid:
        options.iid = fingerprint(words)
    if client.replays and options.new_id is not None:
        return None
    stream = client.db.peek(args[1])
    state = stream.idempotency if type(stream) is Stream else None
    keyspace = client.db.keyspace
    known = None
    if state is not None:
        known = state.find(options.producer, options.iid, keyspace.now if keyspace.expiring else None)
    if known is None and not (client.replays and type(stream) is Stream):
        return None
    if state is not None:
        state.duplicates += 1
    client.db.write(args[1])
    client.db.changed(args[1])
    client.propagate_with_downgrade(args, [where_known(args)] if options.needs_downgrade else None)
    return replies.null(client.resp) if known is None else replies.bulk(encode(known))


@handles(specs.XCFGSET)
def xcfgset(client: Client, args: list[bytes]) -> bytes:
    """Set how long a stream remembers idempotent IDs, and how many for each producer; reply OK.

    A changed value forgets all of them; values that are already set change nothing.
    """
    stream = client.write_value(args[1], Stream)
    if stream is None:
        raise ReplyError(NO_SUCH_KEY)
    given: dict[bytes, int] = {}
    options = Arguments(args, 2)
    while options:
        name = options.option()
        if name not in _PARAMETERS or not options:
            raise ReplyError(SYNTAX)
        if name in given:
            raise ReplyError(TWICE % name)
        maximum, unit = _PARAMETERS[name]
        given[name] = value = options.integer()
        if not 1 <= value <= maximum:
            raise ReplyError(OUT_OF_BOUNDS % (name, maximum, unit))
    if not given:
        raise ReplyError(NO_PARAMETER)
    keyspace = client.db.keyspace
    state = keyspace.idempotency_of(stream)
    if state.configure(
        given.get(b"IDMP-DURATION", state.duration), given.get(b"IDMP-MAXSIZE", state.maxsize)
    ):
        client.db.changed(args[1])
        propagate_where_known(client, args, IDMP_SINCE)
    return replies.OK


@handles(specs.XIDMPRECORD)
def xidmprecord(client: Client, args: list[bytes]) -> bytes:
    """Record the idempotent ID (iid) of an existing entry and reply OK; refuse an iid that belongs to another entry."""
    _, name, pid, iid, word = args
    stream_id = parse(word)
    if not pid:
        raise ReplyError(EMPTY_PRODUCER)
    if not iid:
        raise ReplyError(EMPTY_IID)
    stream = client.write_value(name, Stream)
    if stream is None:
        raise ReplyError(NO_SUCH_KEY)
    if not stream.contains(stream_id):
        raise ReplyError(NO_MESSAGE)
    keyspace = client.db.keyspace
    known = None if stream.idempotency is None else stream.idempotency.find(pid, iid)
    if known is not None:
        if known != stream_id:
            raise ReplyError(OTHER_ENTRY)
        return replies.OK
    keyspace.idempotency_of(stream).record(pid, iid, stream_id)
    client.db.changed(name)
    propagate_where_known(client, args, IDMP_SINCE)
    return replies.OK
