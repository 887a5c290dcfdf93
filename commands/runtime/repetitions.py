"""Random elements that may repeat: SRANDMEMBER, ZRANDMEMBER and HRANDFIELD with a negative count.

Redis returns as many as the count requests, up to 2^63, until it runs out of memory. Here a reply has a size limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import choices
from typing import Final

from ...protocol.errors import ReplyError
from .client import Client

OUT_OF_RANGE: Final = b"ERR value is out of range"
_SHORTEST: Final = 4  # bytes of an element
MOST: Final = 10_000_000  # elements of one reply
MOST_BYTES: Final = 512 << 20  # of one reply, about


def repeated(
    client: Client,
    number: int,
    size: int,
    pick: Callable[[], bytes],
    everything: Callable[[], Iterable[bytes]],
) -> list[bytes]:
    """Choose ``number`` random elements with equal probability; the same one may occur several times.

    Return the encoded elements.
    Raises ReplyError: the reply would be too large.

    Args:
        client: closed if a refused reply exceeds its output limit, as Redis does for any reply.
        pick: returns a random element, encoded.
        everything: returns all elements, encoded.
    """
    if number > MOST:
        raise _too_large(client, number)
    if number < size:
        return [pick() for _ in range(number)]
    items = list(everything())
    if sum(map(len, items)) * number > MOST_BYTES * size:
        raise _too_large(client, number)
    return choices(items, k=number)  # noqa: S311 - no secret


def _too_large(client: Client, number: int) -> ReplyError:
    """Return the error for a reply of so many elements; close the client if the reply exceeds its output limit."""
    client.check_output(number * _SHORTEST)
    return ReplyError(OUT_OF_RANGE)
