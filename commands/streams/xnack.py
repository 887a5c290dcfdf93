"""Entries given back: XNACK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.groups.claiming import release
from ...storage.groups.group import MAX_COUNT
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments, parse_integer
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .group_propagation import no_such_group
from .ids import parse_ids

if TYPE_CHECKING:
    from ..runtime.client import Client

BAD_MODE: Final = b"ERR mode must be SILENT, FAIL, or FATAL"
BAD_NUMBER: Final = b"ERR numids must be a positive integer"
TOO_FEW: Final = b"ERR number of IDs doesn't match numids"
NEGATIVE_COUNT: Final = b"ERR Invalid RETRYCOUNT value, must be >= 0"
IDS_NEEDED: Final = b"ERR syntax error, expected IDS keyword"

_MODES: Final = frozenset((b"SILENT", b"FAIL", b"FATAL"))


class NackOptions:
    """What stands after the group.

    Attributes:
        mode: SILENT takes the delivery back from the counter, FAIL leaves it, FATAL sets it to its maximum.
        retry_count: the counter itself, None if it is not given.
        force: ids that are not pending become so.
        ids: as they were sent.
    """

    __slots__ = ("force", "ids", "mode", "retry_count")

    def __init__(self, args: list[bytes]) -> None:
        self.mode = args[3].upper()
        if self.mode not in _MODES:
            raise ReplyError(BAD_MODE)
        self.retry_count: int | None = None
        self.force = False
        ids: list[bytes] | None = None
        options = Arguments(args, 4)
        while options:
            word = options.next()
            name = word.upper()
            if name == b"IDS" and ids is None and options:
                number = parse_integer(options.next(), BAD_NUMBER)
                if number < 1:
                    raise ReplyError(BAD_NUMBER)
                if number > options.remaining:
                    raise ReplyError(TOO_FEW)
                ids = [options.next() for _ in range(number)]
            elif name == b"RETRYCOUNT" and options:
                self.retry_count = options.integer()
                if self.retry_count < 0:
                    raise ReplyError(NEGATIVE_COUNT)
            elif name == b"FORCE":
                self.force = True
            else:
                raise ReplyError(b"ERR Unrecognized XNACK option '%b'" % shown(word))
        if ids is None:
            raise ReplyError(IDS_NEEDED)
        self.ids = ids

    def next_count(self, count: int) -> int:
        """The delivery counter of an entry that is given back."""
        if self.retry_count is not None:
            return self.retry_count
        if self.mode == b"SILENT":
            return max(count - 1, 0)
        return MAX_COUNT if self.mode == b"FATAL" else count


@handles(specs.XNACK)
def xnack(client: Client, args: list[bytes]) -> bytes:
    """Take entries from their owners, so that any claim finds them at once; answers how many."""
    stream = client.write_value(args[1], Stream)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        raise no_such_group(args[1], args[2])
    if group.pending_cleanup is not None:
        require_group(client, group)
    options = NackOptions(args)
    numbers = parse_ids(options.ids)
    given_back = release(group, stream, numbers, options.next_count, force=options.force)
    if given_back:
        client.server.keyspace.dirty += given_back
        client.propagate(args)
        client.db.signal_ready(args[1])
    return replies.integer(given_back)
