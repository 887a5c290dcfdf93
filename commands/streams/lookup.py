"""Look up the stream and the group of a command; parse idle times and the ID of XADD.

``storage.streams.ids`` parses all other IDs, and intervals.
"""

from __future__ import annotations

from ...protocol.errors import WRONG_TYPE, ReplyError, shown
from ...storage.groups.group import Group
from ...storage.streams import ids as stream_id
from ...storage.streams.stream import Stream
from ..runtime.arguments import INT64_MAX, parse_integer
from ..runtime.client import Client
from .deferral import require_group


def find_group(
    client: Client, key: bytes, name: bytes, where: bytes = b"", *, writing: bool = False
) -> tuple[Stream, Group]:
    """Return a stream and its group, without unfinished ``work``.

    Args:
        where: text to append to the error message.
        writing: the command may change the stream, so this counts as a lookup for writing.

    Raises:
        ReplyError: WRONGTYPE, or NOGROUP if the key or the group is missing.
        Deferred: the group is not ready yet, and the client can wait.
    """
    stream = client.db.write(key) if writing else client.db.read(key)
    if type(stream) is not Stream:
        if stream is not None:
            raise ReplyError(WRONG_TYPE)
        raise no_such_group(key, name, where)
    group = stream.groups.get(name)
    if group is None:
        raise no_such_group(key, name, where)
    if group.work is not None:
        require_group(client, group)
    return stream, group


def no_such_group(key: bytes, group: bytes, where: bytes = b"") -> ReplyError:
    """Return the error NOGROUP, whose text is the same for a missing key and a missing group."""
    return ReplyError(
        b"NOGROUP No such key '%b' or consumer group '%b'%b" % (shown(key), shown(group), where)
    )


def latest_delivery(word: bytes, now: int, error: bytes) -> int:
    """Return the latest delivery time (ms) at which an entry is idle for at least ``word`` milliseconds at time ``now``.

    Raises ReplyError: the word is not a number; with ``error`` as its text.
    """
    min_idle = parse_integer(word, error)
    return now - min_idle if min_idle > 0 else INT64_MAX


def parse_new_id(word: bytes) -> tuple[int, bool]:
    """Parse the ID of an XADD other than ``*``; return it and True, or for ``ms-*`` the ID ``ms-0`` and False.

    Raises ReplyError: the ID is invalid.
    """
    if b"*" in word:
        ms = stream_id.parse_auto_seq(word)
        if ms is not None:
            return ms << 64, False
    return stream_id.parse(word), True
