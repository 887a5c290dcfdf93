"""Repair values after a change of them was interrupted.

A change of a value takes several steps, and an exception may come between any two of them (out of memory, for one).
The repair reads the content of a value from one of its parts only, and derives all others from that: of a sorted set
the scores, of a stream the columns of its chunks, of a group the pages of the PEL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..value_types import TYPES
from . import dump_value, restore_value

if TYPE_CHECKING:
    from ..codecs.codec import Defaults
    from ..collections.encoding_limits import Limits
    from ..value_types import Value


def mended(
    value: Value, version: int, idempotency_defaults: Defaults, limits: Limits
) -> tuple[Value | None, bytes]:
    """Return a repaired value, and the payload from which RESTORE creates its equal; None if nothing is left.

    Args:
        value: it may be inconsistent. The caller must not use it any more, and stores the new one in its place.
        version: of the RDB format of the payload.
        idempotency_defaults: duration (seconds) and maxsize of a stream without its own.
        limits: sizes up to which collections have compact encodings.

    Raises:
        RdbError: its content makes no value.
    """
    kind = TYPES[type(value)]
    if not kind.make_whole(value):
        return None, b""
    payload = dump_value(value, version=version, idempotency_defaults=idempotency_defaults)
    fresh = restore_value(payload)
    kind.choose_encoding(fresh, limits)
    return fresh, payload
