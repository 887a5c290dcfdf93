"""Ziplists: the packed lists in which Redis before 7.0 kept small lists, hashes and sorted sets.

Ten bytes of header (total bytes, offset of the last element, number of elements: 65535 if there are more), the
elements, 0xFF. An element is the size of the previous element, a head with its type and length, and the content.
"""

from __future__ import annotations

from typing import Final

from ..loading import RdbError

_HEADER_BYTES: Final = 10
_END: Final = 0xFF
_LONG: Final = 0xFE  # the size of the previous element follows in four bytes
_MANY: Final = 65535
_INTEGER_BYTES: Final = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}
_BROKEN: Final = "Ziplist integrity check failed."


def unpack(data: bytes) -> list[bytes]:
    """Return the elements of a ziplist, integers as decimal text. Raises RdbError: the ziplist is damaged."""
    end = len(data) - 1
    if end < _HEADER_BYTES or int.from_bytes(data[:4], "little") != len(data) or data[end] != _END:
        raise RdbError(_BROKEN)
    found: list[bytes] = []
    add = found.append
    at = last = _HEADER_BYTES
    size_before = 0
    while at < end:
        start = at
        said = data[at]
        at += 1
        if said == _LONG:
            said = int.from_bytes(data[at : at + 4], "little")
            at += 4
        if said != size_before or at >= end:
            raise RdbError(_BROKEN)
        head = data[at]
        at += 1
        if head < 0xC0:
            if head < 0x40:
                size = head
            elif head < 0x80:
                size = (head & 0x3F) << 8 | data[at]
                at += 1
            else:
                size = int.from_bytes(data[at : at + 4], "big")
                at += 4
            add(data[at : at + size])
            at += size
        elif 0xF1 <= head <= 0xFD:
            add(b"%d" % (head - 0xF1))
        else:
            size = _INTEGER_BYTES.get(head, 0)
            if not size:
                raise RdbError(_BROKEN)
            add(b"%d" % int.from_bytes(data[at : at + size], "little", signed=True))
            at += size
        size_before = at - start
        last = start
    count = int.from_bytes(data[8:10], "little")
    if at != end or int.from_bytes(data[4:8], "little") != last or count not in {_MANY, len(found)}:
        raise RdbError(_BROKEN)
    return found
