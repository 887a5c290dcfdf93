"""Strings as bytes: length, ranges, and changes in place."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import ReplyError
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import LARGE, check_length, read_string, store, store_changed, write_string, written


@handles(specs.APPEND)
def append(client: Client, args: list[bytes]) -> bytes:
    """Append to the string at a key and reply with the new length; appending nothing counts as a change, too."""
    old = write_string(client, args[1])
    if old is None:
        new = args[2]
        store(client, args[1], new, b"append")
    else:
        length = len(old)
        check_length(client, length + len(args[2]))
        if length < LARGE:
            new = old + args[2]
        else:
            del old  # so that it need not be copied
            new = written(client, args[1], length, args[2])
        store_changed(client, args[1], new, b"append")
    client.propagate(args)
    return replies.integer(len(new))


@handles(specs.STRLEN)
def strlen(client: Client, args: list[bytes]) -> bytes:
    """Reply with the length of a string in bytes; 0 for a missing key."""
    return replies.integer(len(read_string(client, args[1]) or b""))


@handles(specs.GETRANGE, specs.SUBSTR)
def getrange(client: Client, args: list[bytes]) -> bytes:
    """Reply with a string's bytes from one index to another, both included; negative ones count from the end."""
    start, end = parse_integer(args[2]), parse_integer(args[3])
    value = read_string(client, args[1])
    if not value or (start < 0 and end < 0 and start > end):
        return replies.EMPTY_BULK
    length = len(value)
    first = start if start >= 0 else max(start + length, 0)
    last = end if end >= 0 else max(end + length, 0)
    return replies.bulk(value[first : last + 1])


@handles(specs.SETRANGE)
def setrange(client: Client, args: list[bytes]) -> bytes:
    """Overwrite a string from an offset on and reply with the new length in bytes.

    A gap is filled with zero bytes; an empty piece changes nothing.
    """
    offset = parse_integer(args[2])
    if offset < 0:
        raise ReplyError(b"ERR offset is out of range")
    piece = args[3]
    length = len(write_string(client, args[1]) or b"")
    if not piece:
        return replies.integer(length)
    check_length(client, offset + len(piece))
    new = written(client, args[1], offset, piece)
    store_changed(client, args[1], new, b"setrange")
    client.propagate(args)
    return replies.integer(len(new))
