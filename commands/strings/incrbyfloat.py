"""INCRBYFLOAT. It is apart from INCR, so that most servers need not import ``fractions``."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, ReplyError
from ..runtime import long_double
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import store_sum, write_string

_NOT_FINITE: Final = b"ERR increment would produce NaN or Infinity"


def _finite(text: bytes) -> Fraction | None:
    """Parse a number, None for infinity; raise NOT_A_FLOAT for any other text."""
    try:
        return long_double.parse(text)
    except ValueError as error:
        raise ReplyError(NOT_A_FLOAT) from error
    except long_double.NotFiniteError:
        return None


@handles(specs.INCRBYFLOAT)
def incrbyfloat(client: Client, args: list[bytes]) -> bytes:
    """Add a float to the number at a key; reply with the sum as a bulk string, the text that is stored.

    It is propagated as SET.
    """
    value = write_string(client, args[1])
    present, amount = _finite(b"0" if value is None else value), _finite(args[2])
    if present is None or amount is None:
        raise ReplyError(_NOT_FINITE)
    try:
        text = long_double.format_fixed(long_double.add(present, amount))
    except long_double.NotFiniteError as error:
        raise ReplyError(_NOT_FINITE) from error
    store_sum(client, args[1], text)
    client.propagate([b"SET", args[1], text, b"KEEPTTL"])
    return replies.bulk(text)
