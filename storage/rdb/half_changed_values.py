"""Repair a value that an exception left half-changed.

A change of a value takes several steps, and an exception (out of memory, for example) may come between any
two of them. The repair trusts only one part of the value and derives all others from it: the scores of a
sorted set, the columns of a stream's chunks, the pages of a group's PEL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codecs.codec import Defaults
from ..value_types import TYPES, Value
from . import dump_value, restore_value

if TYPE_CHECKING:
    from ..collections.encoding_limits import Limits


def mended(
    value: Value, version: int, idempotency_defaults: Defaults, limits: Limits
) -> tuple[Value | None, bytes]:
    """Return a repaired value and the RESTORE payload that creates it; None and b"" if nothing is left of it.

    Raises RdbError: the value cannot be repaired.

    Args:
        value: it may be inconsistent. The caller must discard it, and store the new one in its place.
        idempotency_defaults: duration (seconds) and maxsize of a stream without its own.
        limits: sizes up to which collections have compact encodings.
    """
    kind = TYPES[type(value)]
    if not kind.make_whole(value):
        return None, b""
    payload = dump_value(value, version=version, idempotency_defaults=idempotency_defaults)
    fresh = restore_value(payload)
    kind.choose_encoding(fresh, limits)
    return fresh, payload
