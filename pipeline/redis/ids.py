"""Stream ids as the pipeline keeps them: one integer ``ms << 64 | seq`` that orders as ids do.

Options and offsets have them as text (``"5-0"``), replies as bytes, and data frames also as a 16-byte
key that sorts as ids do.
"""

from __future__ import annotations

from typing import Final

from ...storage.streams.ids import MAX_ID, MAX_U64, InvalidID, encode
from ...storage.streams.ids import parse as parse_lenient

__all__ = ["KEY_BYTES", "MAX_ID", "MAX_U64", "encode"]
__all__ += ["from_key", "from_ms", "join", "key", "parse", "parse_reply", "split", "text"]

KEY_BYTES: Final = 16


def parse(word: bytes | str, missing_seq: int = 0) -> int:
    """Read an id written as ``ms`` or ``ms-seq``.

    Raises ValueError: the word is not an id; the text names it.

    Args:
        word: two plain decimal numbers of at most 64 bits.
        missing_seq: the sequence if the word has none.
    """
    raw = word.encode() if isinstance(word, str) else word
    if not raw.replace(b"-", b"", 1).isdigit():
        raise ValueError(f"not a stream id: {word!r}")
    try:
        return parse_lenient(raw, missing_seq)
    except InvalidID:
        raise ValueError(f"not a stream id: {word!r}") from None


def parse_reply(word: bytes) -> int:
    """Parse an id in a server's reply without the checks of ``parse``: a reply has tens of thousands of ids."""
    ms, _, seq = word.partition(b"-")
    return int(ms) << 64 | int(seq)


def text(stream_id: int) -> str:
    """Return an id's canonical text: ``"5-0"``."""
    return f"{stream_id >> 64}-{stream_id & MAX_U64}"


def split(stream_id: int) -> tuple[int, int]:
    """Return the milliseconds and the sequence number of an id."""
    return stream_id >> 64, stream_id & MAX_U64


def join(ms: int, seq: int = 0) -> int:
    """Return the id with these milliseconds and sequence number, each below 2^64."""
    return ms << 64 | seq


def from_ms(ms: int) -> int:
    """Return the smallest id of a millisecond; times before 1970 and beyond 64 bits give the nearest id."""
    return min(max(ms, 0), MAX_U64) << 64


def key(stream_id: int) -> bytes:
    """Return an id as sixteen bytes, big-endian, whose order is that of ids."""
    return stream_id.to_bytes(KEY_BYTES, "big")


def from_key(word: bytes) -> int:
    """Return the id of a 16-byte key. Raises ValueError: the key does not have sixteen bytes."""
    if len(word) != KEY_BYTES:
        raise ValueError(f"an id key has {KEY_BYTES} bytes, not {len(word)}")
    return int.from_bytes(word, "big")
