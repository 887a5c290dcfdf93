"""Shared by XREAD and XREADGROUP: options, limits, keys, and the form of the reply."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...protocol.errors import SYNTAX, ReplyError
from ...storage.streams.chunk import ChunkRun, ids_in, length_of
from ...storage.streams.stream import Stream
from ..runtime.arguments import parse_integer, parse_timeout
from ..runtime.client import Client
from ..spec.key_specs import KeySpec
from ..spec.versions import Compat

_XREAD_UNBALANCED: Final = (
    b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
)
_XREADGROUP_UNBALANCED: Final = (
    b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
)
_UNBALANCED_7_0: Final = (
    b"ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
)
_STEP: Final = 16  # entries read first where bytes are counted; each further step doubles the number
_SHORT: Final = 256  # most bytes of words whose parsed options are cached
_NEVER_DELIVERED: Final = b":0\r\n:0\r\n"  # idle time and delivery count

# The head of a reply with so many streams, by protocol version: an array of pairs or a map.
REPLY_HEADS: Final = {2: b"*%d\r\n", 3: b"%%%d\r\n"}

# Before the entries of each stream: the length of the key, the key, and the number of entries.
_NUMBER: Final = b"*%d\r\n"
_KEY_HEADS: Final = {2: b"*2\r\n$%d\r\n%b\r\n", 3: b"$%d\r\n%b\r\n"}
STREAM_HEADS: Final = {resp: head + _NUMBER for resp, head in _KEY_HEADS.items()}

# Both heads, for a reply with one stream.
HEADS_OF_ONE: Final = {2: b"*1\r\n*2\r\n$%d\r\n%b\r\n*%d\r\n", 3: b"%%1\r\n$%d\r\n%b\r\n*%d\r\n"}


class ReadBudget:
    """The limits of one XREAD or XREADGROUP (MAXCOUNT, MAXSIZE), and how much of them its streams have used.

    An entry is sent if the reply so far has fewer than MAXCOUNT entries and fewer than MAXSIZE bytes; the
    first entry is always sent. As in Redis, a key counts before the entries of its stream, and their number
    after them. So a key that reaches the limit is sent without entries.
    """

    __slots__ = ("_before", "claim", "entries", "max_count", "max_size", "size")

    def __init__(
        self,
        claim: int | None,
        max_count: int | None,
        max_size: int | None,
        entries: int = 0,
        size: int = 0,
        _before: int = 0,
    ) -> None:
        self.claim = claim  # min-idle-time of CLAIM, None without CLAIM
        # None for no limit.
        self.max_count = max_count
        self.max_size = max_size
        self.entries = entries  # the number of entries so far
        self.size = size  # the bytes so far: entries, keys, and numbers of entries
        self._before = _before  # the size before the current stream

    def is_spent(self) -> bool:
        """Return True if no further entry may be sent; the remaining streams are then skipped."""
        if not self.entries:
            return False
        if self.max_count is not None and self.entries >= self.max_count:
            return True
        return self.max_size is not None and self.size >= self.max_size

    def begin(self, key: bytes, resp: int) -> None:
        """Count the bytes of a stream's key, before its entries."""
        self._before = self.size
        self.size += len(_KEY_HEADS[resp] % (len(key), key))

    def end(self, number: int) -> None:
        """Count the bytes of the header of an array of ``number`` entries, after the entries of a stream."""
        self.size += len(_NUMBER % number)

    def take_back(self) -> None:
        """Uncount the key of the current stream: without entries, the reply leaves the stream out."""
        self.size = self._before

    def within(self, count: int | None) -> int | None:
        """Return the smaller of ``count`` and what MAXCOUNT leaves for the next stream; None for no limit."""
        if self.max_count is None:
            return count
        left = self.max_count - self.entries
        return left if count is None else min(count, left)

    def add(self, size: int) -> None:
        """Count one entry of ``size`` bytes."""
        self.entries += 1
        self.size += size

    def take(
        self, stream: Stream, after: int, count: int | None
    ) -> tuple[list[ChunkRun], list[bytes | bytearray], int]:
        """Like ``Stream.entries_after``, within ``count`` and the limits; count what is returned.

        With CLAIM each entry also has the idle time 0 and the delivery count 0.
        """
        count = self.within(count)
        if self.max_size is None and self.claim is None:
            pieces, parts, last = stream.entries_after(after, count)
            self.entries += length_of(pieces)
            return pieces, parts, last
        parts = []
        last = after
        step = _STEP
        while not self.is_spent():
            most = step if count is None else min(step, count - len(parts))
            pieces, _, _ = stream.entries_after(last, most)
            if not pieces:
                break
            for number in ids_in(pieces):
                if self.is_spent():
                    break
                entry = stream.entry(number)
                assert entry is not None
                if self.claim is not None:
                    entry = b"*4%b%b" % (entry[2:], _NEVER_DELIVERED)
                parts.append(entry)
                last = number
                self.add(len(entry))
            step *= 2
        pieces, _, last = stream.entries_after(after, len(parts))
        return pieces, parts, last


class ReadOptions:
    """The parsed options of an XREAD or XREADGROUP. After parsing, only ``budget`` changes."""

    __slots__ = ("block", "budget", "consumer", "count", "first_key", "group", "keys", "no_ack")

    def __init__(
        self,
        count: int | None,
        block: int | None,
        group: bytes | None,
        consumer: bytes,
        no_ack: bool,
        budget: ReadBudget | None,
        first_key: int,
        keys: int,
    ) -> None:
        self.count = count  # the most entries from each stream, None for all
        self.block = block  # milliseconds to wait, 0 for no limit, None to not wait
        # The reader; None and empty without GROUP.
        self.group = group
        self.consumer = consumer
        self.no_ack = no_ack  # delivered entries do not become pending
        self.budget = budget  # CLAIM, MAXCOUNT and MAXSIZE, None without any of them
        self.first_key = first_key  # index of the first key; the IDs follow the keys
        self.keys = keys


def parse_options(client: Client, args: list[bytes], *, grouped: bool) -> ReadOptions:
    """Parse the options of XREAD or XREADGROUP (``grouped``), up to the first key.

    Raises ReplyError: the options, or the number of keys and IDs, are invalid.
    """
    count: int | None = None
    block: int | None = None
    group: bytes | None = None
    consumer = b""
    no_ack = False
    newer: dict[bytes, int] | None = None
    words = len(args)
    if words == 9 and args[6] == b"STREAMS" and args[4] == b"COUNT" and args[1] == b"GROUP" and grouped:
        # Fast path, same as the loop below. Long names are not cached, because the cache would keep their memory.
        if len(args[2]) + len(args[3]) + len(args[5]) <= _SHORT:
            return _repeated_options(args[5], args[2], args[3])
        return _simple_options(args[5], args[2], args[3])
    if words == 6 and args[3] == b"STREAMS" and args[1] == b"COUNT" and not grouped:
        return _repeated_count(args[2]) if len(args[2]) <= _SHORT else _only_count(args[2])
    at = 1
    while at < words:
        name = args[at].upper()
        at += 1
        more = words - at
        if name == b"STREAMS" and more:
            if more % 2:
                raise ReplyError(_unbalanced(client.server.compat, grouped=grouped))
            if grouped and group is None:
                break
            budget = _read_budget(client, newer, count) if newer else None
            return ReadOptions(count, block, group, consumer, no_ack, budget, at, more // 2)
        if name == b"COUNT" and more:
            number = parse_integer(args[at])
            count = number if number > 0 else None
            at += 1
        elif name == b"BLOCK" and more:
            if client.is_script and not client.server.compat.may_ask_to_block_in_scripts:
                raise ReplyError(b"ERR %b command is not allowed with BLOCK option from scripts" % args[0])
            block = parse_timeout(client, args[at])
            at += 1
        elif name == b"GROUP" and more >= 2:
            if not grouped:
                raise _only_for_groups(name)
            group = args[at]
            consumer = args[at + 1]
            at += 2
        elif name == b"NOACK":
            if not grouped:
                raise _only_for_groups(name)
            no_ack = True
        elif name in _NEWER and more and client.server.compat.knows(_NEWER[name]):
            if name == b"CLAIM" and not grouped:
                raise _only_for_groups(name)
            if newer is None:
                newer = {}
            newer[name] = _limit(name, args[at])
            at += 1
        else:
            raise ReplyError(SYNTAX)
    else:
        raise ReplyError(SYNTAX)
    raise ReplyError(b"ERR Missing GROUP option for XREADGROUP")


def _simple_options(count: bytes, group: bytes, consumer: bytes) -> ReadOptions:
    """Return the options of ``XREADGROUP GROUP group consumer COUNT count STREAMS key id``."""
    number = parse_integer(count)
    return ReadOptions(number if number > 0 else None, None, group, consumer, False, None, 7, 1)


def _only_count(count: bytes) -> ReadOptions:
    """Return the options of ``XREAD COUNT count STREAMS key id``."""
    number = parse_integer(count)
    return ReadOptions(number if number > 0 else None, None, None, b"", False, None, 4, 1)


# A worker repeats the same words, and options without a budget never change. The caches do not keep errors.
# Without them, an XREAD of ten takes 3.6 instead of 3.1 us.
_repeated_options: Final = lru_cache(maxsize=256)(_simple_options)
_repeated_count: Final = lru_cache(maxsize=256)(_only_count)

# Options added after 8.0; each takes one number.
_NEWER: Final = {b"CLAIM": "8.4", b"MAXCOUNT": "8.10", b"MAXSIZE": "8.10"}


def _limit(name: bytes, word: bytes) -> int:
    """Parse the number after CLAIM, MAXCOUNT or MAXSIZE."""
    if name == b"CLAIM":
        number = parse_integer(word, b"ERR min-idle-time is not an integer or out of range")
        if number < 0:
            raise ReplyError(b"ERR min-idle-time must be a positive integer")
        return number
    number = parse_integer(word)
    if number < 1:
        raise ReplyError(b"ERR %b must be a positive integer" % name)
    return number


def _read_budget(client: Client, newer: dict[bytes, int], count: int | None) -> ReadBudget:
    max_count = newer.get(b"MAXCOUNT")
    if max_count is not None and count is not None and max_count < count:
        raise ReplyError(b"ERR MAXCOUNT must be greater than or equal to COUNT")
    # Without a reply (CLIENT REPLY) no bytes count.
    max_size = newer.get(b"MAXSIZE") if client.reply_mode == "on" else None
    return ReadBudget(newer.get(b"CLAIM"), max_count, max_size)


def _unbalanced(compat: Compat, *, grouped: bool) -> bytes:
    if not compat.names_command_in_unbalanced_error:
        return _UNBALANCED_7_0
    if grouped:
        return _XREADGROUP_UNBALANCED
    return _XREAD_UNBALANCED if compat.supports_plus_in_xread else _XREAD_UNBALANCED.replace(b", '+',", b"")


def _only_for_groups(option: bytes) -> ReplyError:
    return ReplyError(
        b"ERR The %b option is only supported by XREADGROUP. You called XREAD instead." % option
    )


def key_specs(start: int) -> tuple[KeySpec, ...]:
    """Return the key spec of XREAD and XREADGROUP: the first half of the words after STREAMS.

    STREAMS is searched from the word ``start`` on.
    """
    return (KeySpec(("RO", "access", "incomplete"), ("keyword", "STREAMS", start), ("range", -1, 1, 2)),)
