"""XREAD: read entries after an ID, or wait for them."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.streams import ids as stream_id
from ...storage.streams.chunk import length_of
from ...storage.streams.ids import MAX_ID
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .read_options import HEADS_OF_ONE, REPLY_HEADS, STREAM_HEADS, parse_options

_GREATER_IN_XREAD: Final = (
    b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
)


@handles(specs.XREAD)
def xread(client: Client, args: list[bytes]) -> bytes | None:
    """Reply with the entries after the given IDs, or block; ``$`` is the current last ID, ``+`` reads the last entry."""
    options = parse_options(client, args, grouped=False)
    budget = options.budget
    first, keys = options.first_key, options.keys
    if keys == 1 and args[-1][:1].isdigit():  # fast path, same as _plan and the loop below
        name = args[first]
        stream, after = client.read_value(name, Stream), stream_id.parse(args[-1])
        plan = [(stream, after)]
        if budget is None and stream is not None and after < stream.last_id:
            number, entries = stream.range_parts(after + 1, MAX_ID, options.count)
            if number:
                client.db.read_again(name, stream)
                return b"".join((HEADS_OF_ONE[client.resp] % (len(name), name, number), *entries))
    else:
        plan = _plan(client, args, first, keys)

    head = STREAM_HEADS[client.resp]
    parts: list[bytes | bytearray] = [b""]
    streams = 0
    for at, (stream, after) in enumerate(plan, first):
        if budget is not None and budget.is_spent():
            break
        if stream is None:
            client.db.look(args[at])  # Redis looks up every key twice: a second miss, with its event
            continue
        client.db.read_again(args[at], stream)
        if after < stream.last_id:
            if budget is None:
                number, entries = stream.range_parts(after + 1, MAX_ID, options.count)
                if not number:
                    continue
            else:
                budget.begin(args[at], client.resp)
                pieces, entries, _ = budget.take(stream, after, options.count)
                number = length_of(pieces)
                if not number and not (budget.is_spent() and stream.last_entry_id > after):
                    budget.take_back()
                    continue
                budget.end(number)
            streams += 1
            parts += (head % (len(args[at]), args[at], number), *entries)
    if streams:
        parts[0] = REPLY_HEADS[client.resp] % streams
        return b"".join(parts)
    if options.block is None or not client.may_block:
        return replies.null_array(client.resp)
    again = args
    if b"$" in args[first + keys :]:
        again = args[: first + keys]
        again += [
            stream_id.encode(after) if word == b"$" else word
            for word, (_, after) in zip(args[first + keys :], plan, strict=True)
        ]
    client.server.blocking.block(client, args[first : first + keys], options.block, again)
    return None


def _plan(client: Client, args: list[bytes], first: int, keys: int) -> list[tuple[Stream | None, int]]:
    """Look up the stream of each key and parse the ID after which to read it."""
    plan: list[tuple[Stream | None, int]] = []
    for at in range(first, first + keys):
        stream = client.read_value(args[at], Stream)
        word = args[at + keys]
        if word == b"$":
            after = 0 if stream is None else stream.last_id
        elif word == b"+" and client.server.compat.supports_plus_in_xread:
            after = 0 if stream is None or not stream.length else _last_entry(stream) - 1
        elif word == b">":
            raise ReplyError(_GREATER_IN_XREAD)
        else:
            after = stream_id.parse(word)
        plan.append((stream, after))
    return plan


def _last_entry(stream: Stream) -> int:
    """Return the ID of the last entry of a non-empty stream."""
    if stream.contains(stream.last_id):
        return stream.last_id
    _, entry = stream.range_reverse(0, MAX_ID, 1)
    return stream_id.parse(entry.split(b"\r\n", 3)[2])
