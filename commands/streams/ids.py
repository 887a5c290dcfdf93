"""Stream IDs as arguments: the parsers of ``storage.streams.ids``, with their failures as error replies."""

from __future__ import annotations

from ...protocol.errors import INVALID_STREAM_ID, ReplyError
from ...storage.streams import ids as stream_id
from ...storage.streams.ids import IntervalError, InvalidID


def parse_id(word: bytes, missing_seq: int = 0) -> int:
    """An explicit ID: no ``-``, ``+``, ``*`` or ``$``."""
    try:
        return stream_id.parse(word, missing_seq)
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None


def parse_ids(words: list[bytes]) -> list[int]:
    """Explicit IDs; the first bad one fails them all."""
    try:
        return [stream_id.parse(word) for word in words]
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None


def parse_bound(word: bytes, missing_seq: int = 0) -> int:
    """An explicit ID, or ``-`` and ``+`` for the smallest and the greatest (XGROUP SETID)."""
    try:
        return stream_id.parse_bound(word, missing_seq)
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None


def parse_start(word: bytes) -> int:
    """The start of an interval, inclusive in the result; ``-``, ``+`` and ``(id`` are understood."""
    try:
        return stream_id.parse_interval_start(word)
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None
    except IntervalError as error:
        raise ReplyError(error.text) from None


def parse_interval(start: bytes, end: bytes) -> tuple[int, int]:
    """Both ends of an interval, inclusive in the result; ``-``, ``+`` and ``(id`` are understood."""
    try:
        return stream_id.parse_interval(start, end)
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None
    except IntervalError as error:
        raise ReplyError(error.text) from None


def parse_new_id(word: bytes) -> tuple[int, bool]:
    """The ID argument of XADD: the ID, and whether its sequence is given (not for ``ms-*``, where it is 0)."""
    try:
        if b"*" in word:
            ms = stream_id.parse_auto_seq(word)
            if ms is not None:
                return ms << 64, False
        return stream_id.parse(word), True
    except InvalidID:
        raise ReplyError(INVALID_STREAM_ID) from None
