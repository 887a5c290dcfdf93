"""What XREAD and XREADGROUP share: their options, their keys and the form of their replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ..runtime.arguments import INT64_MAX, parse_integer
from ..spec.key_specs import KeySpec
from .read_budget import Allowance

if TYPE_CHECKING:
    from ..runtime.client import Client
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


_NOT_A_TIMEOUT: Final = b"ERR timeout is not an integer or out of range"


class ReadOptions:
    """The words before the keys.

    Attributes:
        count: at most so many entries from each stream, None for all.
        block: milliseconds to wait, 0 without limit, None for not at all.
        group, consumer: who reads; None without GROUP.
        no_ack: delivered entries do not become pending.
        allowance: CLAIM, MAXCOUNT and MAXSIZE, None without any of them.
        first_key: index of the first key; the IDs follow the keys.
        keys: how many keys there are.
    """

    __slots__ = ("allowance", "block", "consumer", "count", "first_key", "group", "keys", "no_ack")

    def __init__(
        self,
        count: int | None,
        block: int | None,
        group: bytes | None,
        consumer: bytes,
        no_ack: bool,
        allowance: Allowance | None,
        first_key: int,
        keys: int,
    ) -> None:
        self.count = count
        self.block = block
        self.group = group
        self.consumer = consumer
        self.no_ack = no_ack
        self.allowance = allowance
        self.first_key = first_key
        self.keys = keys


def parse_options(client: Client, args: list[bytes], *, grouped: bool) -> ReadOptions:
    """The words of XREAD or XREADGROUP (``grouped``) up to the first key."""
    count: int | None = None
    block: int | None = None
    group: bytes | None = None
    consumer = b""
    no_ack = False
    newer: dict[bytes, int] | None = None
    words = len(args)
    if words == 9 and args[6] == b"STREAMS" and args[4] == b"COUNT" and args[1] == b"GROUP" and grouped:
        number = parse_integer(args[5])  # nearly always sent like this, or with BLOCK
        return ReadOptions(number if number > 0 else None, None, args[2], args[3], False, None, 7, 1)
    at = 1
    while at < words:
        name = args[at]
        if name not in _OPTION_WORDS:  # nearly always sent in upper case
            name = name.upper()
        at += 1
        more = words - at
        if name == b"STREAMS" and more:
            if more % 2:
                raise ReplyError(_unbalanced(client.server.compat, grouped=grouped))
            if grouped and group is None:
                break
            allowance = _allowance(newer, count) if newer else None
            return ReadOptions(count, block, group, consumer, no_ack, allowance, at, more // 2)
        if name == b"COUNT" and more:
            number = parse_integer(args[at])
            count = number if number > 0 else None
            at += 1
        elif name == b"BLOCK" and more:
            block = _timeout(client, args[at])
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


_OPTION_WORDS: Final = frozenset((b"STREAMS", b"COUNT", b"BLOCK", b"GROUP", b"NOACK"))


# What came later than 8.0, always with one number behind it.
_NEWER: Final = {b"CLAIM": "8.4", b"MAXCOUNT": "8.10", b"MAXSIZE": "8.10"}


def _limit(name: bytes, word: bytes) -> int:
    """The number behind CLAIM, MAXCOUNT or MAXSIZE."""
    if name == b"CLAIM":
        number = parse_integer(word, b"ERR min-idle-time is not an integer or out of range")
        if number < 0:
            raise ReplyError(b"ERR min-idle-time must be a positive integer")
        return number
    error = b"ERR %b must be a positive integer" % name
    number = parse_integer(word, error)
    if number < 1:
        raise ReplyError(error)
    return number


def _allowance(newer: dict[bytes, int], count: int | None) -> Allowance:
    max_count = newer.get(b"MAXCOUNT")
    if max_count is not None and count is not None and max_count < count:
        raise ReplyError(b"ERR MAXCOUNT must be greater than or equal to COUNT")
    return Allowance(newer.get(b"CLAIM"), max_count, newer.get(b"MAXSIZE"))


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


def _timeout(client: Client, word: bytes) -> int:
    timeout = parse_integer(word, _NOT_A_TIMEOUT)
    if timeout < 0:
        raise ReplyError(b"ERR timeout is negative")
    if timeout > INT64_MAX - client.server.keyspace.now:
        if not client.server.compat.refuses_overflowing_timeouts:
            return 0
        raise ReplyError(b"ERR timeout is out of range")
    return timeout


def key_specs(start: int) -> tuple[KeySpec, ...]:
    """Return the key spec of a command whose keys follow STREAMS, looked for from a word on."""
    return (KeySpec(("RO", "access", "incomplete"), ("keyword", "STREAMS", start), ("range", -1, 1, 2)),)


def reply_part(resp: int, key: bytes, number: int) -> bytes:
    """What stands before one stream's entries: the head of a pair, in RESP3 a key and the head of its value."""
    if resp == 3:
        return b"$%d\r\n%b\r\n*%d\r\n" % (len(key), key, number)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(key), key, number)


def whole_reply(resp: int, parts: list[bytes]) -> bytes:
    """The reply from the heads and the entries of all streams by turns."""
    if len(parts) == 2:
        return (b"%%1\r\n%b%b" if resp == 3 else b"*1\r\n%b%b") % (*parts,)
    streams = len(parts) // 2
    return b"".join((b"%%%d\r\n" % streams if resp == 3 else replies.array_header(streams), *parts))
