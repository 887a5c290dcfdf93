"""Compare strings before an operation: DIGEST, DELEX, and the conditions of SET."""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_hexdigest

from ...protocol import replies
from ...protocol.errors import WRONG_TYPE, ReplyError, wrong_arity
from ...storage.value_types import Value
from ..keys.lifecycle import delete
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade
from ..spec.command import handles
from . import specs
from .shared import read_string

CONDITIONS: Final = frozenset((b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"))
_DIGEST_LENGTH: Final = 16
_DELEX_SINCE: Final = (8, 4)


def digest_of(value: bytes) -> bytes:
    """Return the 64-bit XXH3 hash of a value as 16 lower-case hexadecimal digits."""
    return xxh3_64_hexdigest(value).encode()


def holds(condition: bytes, operand: bytes, value: Value | None) -> bool:
    """Return True if a value meets a condition such as IFEQ with its operand; a missing value equals nothing.

    Raises ReplyError: the value is not a string, or the operand does not have the length of a digest. A missing value
    raises neither.
    """
    if value is None:
        return condition in {b"IFNE", b"IFDNE"}
    if type(value) is not bytes:
        raise ReplyError(WRONG_TYPE)
    if condition in {b"IFEQ", b"IFNE"}:
        return (value == operand) == (condition == b"IFEQ")
    if len(operand) != _DIGEST_LENGTH:
        raise ReplyError(b"ERR must be exactly 16 hexadecimal characters")
    return (digest_of(value) == operand.lower()) == (condition == b"IFDEQ")


@handles(specs.DIGEST)
def digest(client: Client, args: list[bytes]) -> bytes:
    """Reply with the XXH3 hash of a string as 16 hexadecimal digits, null for a missing key."""
    value = read_string(client, args[1])
    return replies.null(client.resp) if value is None else replies.bulk(digest_of(value))


@handles(specs.DELEX)
def delex(client: Client, args: list[bytes]) -> bytes:
    """Delete a key if a condition about its string holds, or without one any key; reply 1 if it was deleted, else 0.

    A deletion with a condition is propagated as DEL.
    """
    if len(args) not in {2, 4}:
        raise wrong_arity("delex")
    name = args[1]
    if len(args) == 2:
        client.db.peek(name)
        if name not in client.db.entries:  # as DEL
            return replies.ZERO
        delete(client, name)
        older = [[b"DEL", name]] if needs_downgrade(client, _DELEX_SINCE) else None
        client.propagate_with_downgrade(args, older)
        return replies.ONE
    value = client.db.read(name)
    if value is None:
        return replies.ZERO
    if type(value) is not bytes:
        raise ReplyError(b"ERR Key should be of string type if conditions are specified")
    condition = args[2].upper()
    if condition not in CONDITIONS:
        raise ReplyError(b"ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
    if not holds(condition, args[3], value):
        return replies.ZERO
    delete(client, name)
    client.propagate([b"DEL", name])
    return replies.ONE
