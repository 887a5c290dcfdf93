"""XACK and XNACK: acknowledge pending entries, or return them to their group."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.groups.claiming import release
from ...storage.streams.ids import MAX_COUNT, encode, parse
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade, where_known_of_many
from ..spec.command import handles
from ..spec.versions import XNACK_SINCE
from . import specs
from .deferral import require_group
from .lookup import find_group

BAD_MODE: Final = b"ERR mode must be SILENT, FAIL, or FATAL"
BAD_NUMBER: Final = b"ERR numids must be a positive integer"
TOO_FEW: Final = b"ERR number of IDs doesn't match numids"
NEGATIVE_COUNT: Final = b"ERR Invalid RETRYCOUNT value, must be >= 0"
IDS_NEEDED: Final = b"ERR syntax error, expected IDS keyword"

_INT_MAX: Final = (1 << 31) - 1
_MODES: Final = frozenset((b"SILENT", b"FAIL", b"FATAL"))


@handles(specs.XACK)
def xack(client: Client, args: list[bytes]) -> bytes:
    """Acknowledge pending entries; reply with their number.

    All IDs are validated before any is acknowledged, but only if the group exists.
    """
    stream = client.read_value(args[1], Stream)
    if stream is None:
        return replies.ZERO
    group = stream.groups.get(args[2])
    if group is None:
        return replies.ZERO
    if group.work is not None:
        require_group(client, group)
    ids = args[3:]
    pel = group.pel
    by_text = pel.by_text
    for word in ids:
        if word not in by_text:  # not pending, or not a canonical ID, or no ID at all
            ids = [encode(parse(word)) for word in ids]
            break
    acknowledged = pel.acknowledge(ids)
    if acknowledged:
        client.db.changed(args[1], acknowledged)
        if client.server.propagation.active:
            client.propagate(args)
    return replies.integer(acknowledged)


class NackOptions:
    """The parsed options of XNACK."""

    __slots__ = ("_number_at", "force", "ids", "mode", "retry_count")

    def __init__(self, args: list[bytes]) -> None:
        # SILENT decrements the delivery count, FAIL keeps it, FATAL sets it to the maximum.
        self.mode = args[3].upper()
        if self.mode not in _MODES:
            raise ReplyError(BAD_MODE)
        self.retry_count: int | None = None  # the delivery count to set; None if RETRYCOUNT is not given
        self.force = False  # entries of the stream that are not pending become pending
        self._number_at = 0  # index of the number of IDs in the last IDS
        ids: list[bytes] | None = None
        options = Arguments(args, 4)
        while options:
            word = options.next()
            name = word.upper()
            if name == b"IDS" and options:
                self._number_at = len(args) - options.remaining
                number = parse_integer(options.next(), BAD_NUMBER)
                if not 1 <= number <= _INT_MAX:
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
        self.ids = ids  # the IDs as sent; the last IDS wins

    def in_pieces(self, args: list[bytes]) -> list[list[bytes]]:
        """Return this XNACK as commands that replicas without XNACK can skip; long lists of IDs are split."""
        at = self._number_at
        return where_known_of_many(args[:at], self.ids, args[at + 1 + len(self.ids) :])

    def next_count(self, count: int) -> int:
        """Return the delivery count that XNACK gives an entry whose count was ``count``."""
        if self.retry_count is not None:
            return self.retry_count
        if self.mode == b"SILENT":
            return max(count - 1, 0)
        return MAX_COUNT if self.mode == b"FATAL" else count


@handles(specs.XNACK)
def xnack(client: Client, args: list[bytes]) -> bytes:
    """Take pending entries from their owners, so that any consumer can claim them at once; reply with their number."""
    stream, group = find_group(client, args[1], args[2], writing=True)
    options = NackOptions(args)
    numbers = list(map(parse, options.ids))
    given_back = release(group, stream, numbers, options.next_count, force=options.force)
    if given_back:
        client.db.changed(args[1], given_back)
        client.propagate_with_downgrade(
            args, options.in_pieces(args) if needs_downgrade(client, XNACK_SINCE) else None
        )
        client.db.signal_ready(args[1])
    return replies.integer(given_back)
