"""Parse the timeouts of blocking commands, and reply where blocking is not allowed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.value_types import Value
from .arguments import INT64_MAX, TIMEOUT_NEGATIVE, limited_timeout
from .client import Client
from .long_double import NotFiniteError, parse

_NOT_A_NUMBER: Final = b"ERR timeout is not a float or out of range"


def parse_seconds(client: Client, word: bytes) -> int:
    """Parse a timeout in seconds, with a fraction; return milliseconds, rounded up, 0 for no limit.

    Raises ReplyError: it is not a number, is negative or too large.
    """
    if word == b"0":
        return 0
    try:
        timeout = ceil(parse(word) * 1000)
    except NotFiniteError:
        timeout = -1 if word.startswith(b"-") else INT64_MAX + 1
    except ValueError as error:
        raise ReplyError(_NOT_A_NUMBER) from error
    if timeout > INT64_MAX and not client.server.compat.refuses_overflowing_timeouts:
        raise ReplyError(TIMEOUT_NEGATIVE)
    return limited_timeout(client, timeout)


def wait(
    client: Client, keys: Sequence[bytes], timeout: int, args: list[bytes], wants: type[Value]
) -> bytes | None:
    """Block a client until one of the keys holds a value of class ``wants``, then re-run ``args``.

    Args:
        timeout: milliseconds, 0 for no limit.
        wants: Stream, List …

    Returns:
        None; if the client may not block, an encoded null array.
    """
    if not client.may_block:
        return replies.null_array(client.resp)
    client.server.blocking.block(client, keys, timeout, args, wants=wants)
    return None
