"""XADD: the ID of the new entry, its fields, and the trim that follows."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.canonical import LENGTHS
from ...protocol.errors import WRONG_TYPE, ReplyError, wrong_arity
from ...storage.keyspace import notifications as events
from ...storage.streams.ids import MAX_ID, encode
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .idempotency import answer_duplicate
from .lookup import parse_new_id
from .trim_options import parse_trim_options

ZERO_ID: Final = b"ERR The ID specified in XADD must be greater than 0-0"
EXHAUSTED: Final = b"ERR The stream has exhausted the last possible ID, unable to add more items"
SMALL_ID: Final = b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
TOO_LARGE: Final = b"ERR Elements are too large to be stored"

# A chunk counts its bytes in 32 bits, so an entry of billions of tiny words is refused; Redis would accept it.
_MAX_ENCODED: Final = 3 << 30

# The length headers ("$5") of words up to 1 KiB.
_LENGTHS: Final = tuple(LENGTHS)


@handles(specs.XADD)
def xadd(client: Client, args: list[bytes]) -> bytes:
    """Append an entry, trim on request, and reply with the new ID."""
    options = new_id = None
    seq_given = True
    words = args[3:]
    if args[2] == b"*":
        pass
    elif args[2][:1].isdigit():  # no option begins like this
        new_id, seq_given = parse_new_id(args[2])
    else:
        options = parse_trim_options(client, args, adding=True)
        new_id, seq_given = options.new_id, options.seq_given
        words = args[options.id_at + 1 :]
    if len(words) < 2 or len(words) & 1:
        raise wrong_arity("xadd")
    if new_id == 0 and seq_given:
        raise ReplyError(ZERO_ID)
    if options is not None and options.producer:
        duplicate = answer_duplicate(client, args, options, words)
        if duplicate is not None:
            return duplicate
    fields = encode_fields(words)
    name = args[1]
    db = client.db
    keyspace = db.keyspace
    stream = db.write(name)
    if stream is None:
        if options is not None and options.no_mkstream:
            return replies.null(client.resp)
        stream = Stream()
        created = True
    elif type(stream) is Stream:
        created = False
    else:
        raise ReplyError(WRONG_TYPE)

    last = stream.last_id
    if last == MAX_ID:
        raise ReplyError(EXHAUSTED)
    if new_id is None:
        stream_id = keyspace.now << 64 if keyspace.now > last >> 64 else last + 1
    else:
        stream_id = _given_id(client, new_id, seq_given, last)
    most = client.server.tuning.entry_bytes
    if len(fields) > most and (sum(map(len, words)) > most or len(fields) > _MAX_ENCODED):
        raise ReplyError(TOO_LARGE)
    trims = options is not None and options.strategy is not None and not options.removes_nothing(stream)
    if options is not None and trims:
        options.require_ready(client, stream)

    config = client.server.config
    reply = stream.append(stream_id, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    if created:
        db.add(name, stream)
    keyspace.dirty += 1
    trimmed = 0
    if options is not None:
        if options.producer:
            keyspace.idempotency_of(stream).record(options.producer, options.iid, stream_id)
        if trims:
            trimmed = options.trim(client, stream)
    if keyspace.notify_mask or db.watched or keyspace.on_modified is not None or db.meter is not None:
        event_first = not client.server.compat.signals_before_events
        names = (b"xadd", b"xtrim") if trimmed else (b"xadd",)
        db.announce(name, events.STREAM, *names, event_first=event_first)

    propagation = client.server.propagation
    if propagation.active:
        if options is None:
            verb, header = args[0], len(b"*%d\r\n" % len(words))
            id_word = reply if new_id is None or not seq_given else replies.bulk(args[2])
            propagation.add_encoded(
                db.index,
                b"*%d\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n%b%b"
                % (len(args), len(verb), verb, len(name), name, id_word, fields[header:]),
            )
        else:
            propagated = args.copy()
            options.rewrite(propagated, stream)
            if new_id is None or not seq_given:
                propagated[options.id_at] = encode(stream_id)
            older = options.downgraded(propagated, stream) if options.needs_downgrade else None
            client.propagate_with_downgrade(propagated, older)
    if db.awaited:
        db.signal_ready(name)
    return reply


def _given_id(client: Client, stream_id: int, seq_given: bool, last: int) -> int:
    """Return the requested ID, with the sequence of ``ms-*`` filled in; it must be greater than the last ID."""
    if not seq_given and stream_id >> 64 == last >> 64:
        # After the greatest sequence, + 1 would carry into the next millisecond, which was not requested.
        if (last + 1) >> 64 != last >> 64:
            raise ReplyError(SMALL_ID if client.server.compat.treats_partial_ids_as_small else TOO_LARGE)
        return last + 1
    if stream_id <= last:
        raise ReplyError(SMALL_ID)
    return stream_id


def encode_fields(words: list[bytes]) -> bytes:
    """Encode fields and values as one RESP array, the form in which a stream stores them."""
    number = len(words)
    try:
        if number == 2:
            name, value = words
            if len(value) > 1024 >= len(name):
                return b"*2\r\n%b\r\n%b\r\n$%d\r\n%b\r\n" % (_LENGTHS[len(name)], name, len(value), value)
            return b"\r\n".join((b"*2", _LENGTHS[len(name)], name, _LENGTHS[len(value)], value, b""))
        if number == 4:
            a, b, c, d = words
            sizes = _LENGTHS
            return b"\r\n".join(
                (b"*4", sizes[len(a)], a, sizes[len(b)], b, sizes[len(c)], c, sizes[len(d)], d, b"")
            )
        parts = [b"*%d" % number]
        append = parts.append
        for word in words:
            append(_LENGTHS[len(word)])
            append(word)
    except IndexError:
        return replies.bulk_array(words)
    append(b"")
    return b"\r\n".join(parts)
