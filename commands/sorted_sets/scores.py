"""Encode the scores of sorted sets in replies."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ..runtime.client import Client

_LARGEST_WHOLE: Final = 1 << 62


def score_text(client: Client, score: float) -> bytes:
    """Format a score as the emulated version does: with the fewest digits, or in 7.0 with 17."""
    return replies.format_double(score) if client.server.compat.shortest_doubles else score_text_7_0(score)


def score_text_in_listpack(client: Client, score: float) -> bytes:
    """Like ``score_text``, but in every version a whole number has all its digits and no exponent."""
    if score.is_integer() and abs(score) <= _LARGEST_WHOLE:
        return b"%d" % score
    return score_text(client, score)


def score_text_7_0(score: float) -> bytes:
    """Format a score with up to 17 digits, as Redis 7.0 does."""
    return b"%.17g" % score


def encode_score(client: Client, score: float) -> bytes:
    """Encode a score as a double; in RESP2 as a bulk string."""
    text = score_text(client, score)
    return b",%b\r\n" % text if client.resp == 3 else replies.bulk(text)


def encode_pair(client: Client, score: float, member: bytes) -> bytes:
    """Encode a member and its score, one after the other, without the header of an array."""
    return b"$%d\r\n%b\r\n%b" % (len(member), member, encode_score(client, score))


def encode_items(client: Client, items: list[tuple[float, bytes]], *, with_scores: bool) -> bytes:
    """Encode members as an array; with scores, as pairs in RESP3 and alternating in RESP2."""
    if not with_scores:
        return replies.array([b"$%d\r\n%b\r\n" % (len(member), member) for _, member in items])
    pairs = [encode_pair(client, score, member) for score, member in items]
    if client.resp == 3:
        pairs = [b"*2\r\n" + pair for pair in pairs]
    return encoded_items(client, pairs, with_scores=True)


def encode_item(client: Client, item: tuple[float, bytes], *, with_score: bool) -> bytes:
    """Encode one member, with its score if requested, as an element for ``encoded_items``."""
    score, member = item
    if not with_score:
        return b"$%d\r\n%b\r\n" % (len(member), member)
    pair = encode_pair(client, score, member)
    return b"*2\r\n" + pair if client.resp == 3 else pair


def encoded_items(client: Client, encoded: list[bytes], *, with_scores: bool) -> bytes:
    """Join elements that ``encode_item`` encoded to an array."""
    return replies.array_header(2 * len(encoded) if with_scores and client.resp == 2 else len(encoded)) + (
        b"".join(encoded)
    )
