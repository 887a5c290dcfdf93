"""Stream IDs: one integer ``ms << 64 | seq`` inside Rillet, the text ``<ms>-<seq>`` outside.

The integers sort like the IDs, and adding one yields the next possible ID (a full sequence carries into the
milliseconds).
"""

from __future__ import annotations

from operator import lt
from typing import Final

from ...protocol.errors import INVALID_STREAM_ID, ReplyError
from ...protocol.regex import regex

MAX_U64: Final = (1 << 64) - 1
MAX_ID: Final = (1 << 128) - 1
MAX_COUNT: Final = (1 << 63) - 1  # maximum of all counters

# What C's strtoull reads: white space, a sign, digits.
_LENIENT: Final = regex(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)\Z")
_NEGATIVE: Final = regex(rb"-[1-9][0-9]*\Z")
_INT64_LIMIT: Final = 1 << 63
_LONGEST: Final = 127
_FEW: Final = 64  # a set of this size costs little, even if all hashes are equal


class InvalidID(ReplyError):  # noqa: N818 - reads as what it says: the word is an invalid ID
    """The word is not a valid stream ID."""

    def __init__(self) -> None:
        super().__init__(INVALID_STREAM_ID)


def encode(stream_id: int) -> bytes:
    """Return the canonical text, without padding: ``b"5-0"``."""
    return b"%d-%d" % (stream_id >> 64, stream_id & MAX_U64)


def are_distinct(numbers: list[int]) -> bool:
    """Return True if no ID occurs twice.

    Clients can predict Python's hash of an integer and choose IDs with equal hashes, so many IDs are sorted instead of
    put into a set. Containers keyed by ID use the ID's bytes, whose hash is seeded.
    """
    if len(numbers) <= _FEW:
        return len(set(numbers)) == len(numbers)
    return is_ascending(sorted(numbers))


def is_ascending(numbers: list[int]) -> bool:
    """Return True if each of these IDs is greater than the one before."""
    return all(map(lt, numbers, numbers[1:]))


def parse(word: bytes, missing_seq: int = 0) -> int:
    """Return the ID that a word spells in its strict form: digits only, no ``-``, ``+``, ``$`` or ``*``.

    Raises InvalidID: the word is not an ID.

    Args:
        word: ``ms`` or ``ms-seq``, at most 127 bytes; each number is read as leniently as by strtoull.
        missing_seq: the sequence of a word without one.
    """
    ms, dash, seq = word.partition(b"-")
    # Nearly all clients use this spelling; up to 19 digits cannot exceed 64 bits.
    if ms.isdigit() and len(ms) < 20:
        if not dash:
            return int(ms) << 64 | missing_seq
        if seq.isdigit() and len(seq) < 20:
            return int(ms) << 64 | int(seq)
    if len(word) > _LONGEST:
        raise InvalidID
    ms, dash, seq = _until_nul(word).partition(b"-")
    return _parse_number(ms) << 64 | (_parse_number(seq) if dash else missing_seq)


def parse_auto_seq(word: bytes) -> int | None:
    """Return the milliseconds of ``ms-*``, None if the word does not have that form.

    Raises InvalidID: the part before ``-*`` is not a number.
    """
    if len(word) > _LONGEST:
        raise InvalidID
    ms, dash, seq = _until_nul(word).partition(b"-")
    return _parse_number(ms) if dash and seq == b"*" else None


def parse_bound(word: bytes, missing_seq: int = 0) -> int:
    """Return the ID that a word spells; ``-`` (the smallest) and ``+`` (the greatest) are also allowed.

    Raises InvalidID: the word is not an ID.
    """
    if word[:1] in {b"-", b"+"} and _until_nul(word) in {b"-", b"+"} and len(word) <= _LONGEST:
        return 0 if word[0] == 45 else MAX_ID
    return parse(word, missing_seq)


def parse_interval_start(word: bytes) -> int:
    """Return the first ID of an interval; ``(id`` begins right after that ID.

    Raises:
        InvalidID: the word is not an ID.
        ReplyError: nothing follows the greatest ID.
    """
    if len(word) > 1 and word[0] == 40:
        start = parse(word[1:]) + 1
        if start > MAX_ID:
            raise ReplyError(b"ERR invalid start ID for the interval")
        return start
    return parse_bound(word)


def parse_interval_end(word: bytes) -> int:
    """Return the last ID of an interval; ``(id`` ends right before that ID.

    Raises:
        InvalidID: the word is not an ID.
        ReplyError: nothing precedes 0-0.
    """
    if len(word) > 1 and word[0] == 40:
        end = parse(word[1:], MAX_U64) - 1
        if end < 0:
            raise ReplyError(b"ERR invalid end ID for the interval")
        return end
    return parse_bound(word, MAX_U64)


def parse_interval(start: bytes, end: bytes) -> tuple[int, int]:
    """Return both ends of an interval, inclusive; the start is checked first.

    Raises:
        InvalidID: a word is not an ID.
        ReplyError: an exclusive bound leaves nothing.
    """
    if start == b"-" and end == b"+":  # without it an XRANGE of ten takes 3.1 instead of 2.6 us
        return 0, MAX_ID
    return parse_interval_start(start), parse_interval_end(end)


def _until_nul(word: bytes) -> bytes:
    """Return the word up to its first NUL byte, as C reads it."""
    return word.partition(b"\0")[0]


def _parse_number(text: bytes) -> int:
    match = _LENIENT().match(text)
    if match is None:
        raise InvalidID
    sign, digits = match.groups()
    value = int(digits)
    if value > MAX_U64:
        raise InvalidID
    if sign != b"-":
        return value
    # A canonical negative number is refused; any other spelling reaches strtoull, which wraps it around.
    if value <= _INT64_LIMIT and _NEGATIVE().match(text):
        raise InvalidID
    return -value & MAX_U64


def signed(difference: int) -> int:
    """Convert the difference of two unsigned 64-bit numbers to a signed one as C does: modulo 2^64."""
    difference &= MAX_U64
    return difference - (1 << 64) if difference >> 63 else difference
