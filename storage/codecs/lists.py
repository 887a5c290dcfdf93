"""Lists in RDB: reads every form that Redis ever wrote, and writes the newest.

1    the number of elements, then each as a string
10   one ziplist
14   the number of nodes, then each as a ziplist
18   the number of nodes, then each as a kind (1: one plain element, 2: a listpack) and a string
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..collections.list import QUICKLIST, List
from ..loading import RdbError
from . import listpack, ziplist
from .byte_source import ByteSource, EmptyValueError
from .codec import PLAIN, Codec, Writing
from .encoding import encode_length, read_length, read_string

LIST_TYPES: Final = (1, 10, 14, 18)
_PLAIN: Final = 1
_PACKED: Final = 2
_PLAIN_BYTES: Final = 8192  # an element of this size or more has its own node
_NODE_BYTES: Final = 8192
_PAUSE: Final = 1024  # strings of type 1


def read_list(source: ByteSource, value_type: int, valkey: bool) -> Iterator[List | None]:
    """Read the list after a key: yield None between steps, and the list last.

    Raises RdbError: it is damaged, or empty: Redis has no empty lists.
    """
    del valkey  # Valkey writes lists as Redis does
    elements: list[bytes] = []
    stays_quicklist = value_type == 10
    if stays_quicklist:
        elements = ziplist.unpack(read_string(source))
    else:
        for number in range(read_length(source)):
            if value_type == 1:
                elements.append(read_string(source))
                if number % _PAUSE == _PAUSE - 1:
                    yield None
                continue
            if value_type == 14:
                elements += ziplist.unpack(read_string(source))
            else:
                is_plain, words = _node(source)
                elements += words
                stays_quicklist = stays_quicklist or is_plain
            yield None
    if not elements:
        raise EmptyValueError("A list without elements")
    found = List(elements)
    if stays_quicklist:
        found.encoding = QUICKLIST
    yield found


def _node(source: ByteSource) -> tuple[bool, list[bytes]]:
    """Read a node; return True if it is one large element, and its elements."""
    kind = read_length(source)
    if kind == _PLAIN:
        element = read_string(source)
        if not element:
            raise RdbError("A node of a list without its element")
        return True, [element]
    if kind != _PACKED:
        raise RdbError("Quicklist integrity check failed.")
    return False, [
        element if isinstance(element, bytes) else b"%d" % element
        for element in listpack.unpack(read_string(source))
    ]


def list_type(_value: List, _version: int) -> int:
    """Return the type byte for lists: 18, known since Redis 7.0 (RDB version 10)."""
    return 18


def encode_list(value: List, _value_type: int, writing: Writing = PLAIN) -> Iterator[bytes]:
    """Yield the RDB form of a list, the bytes that follow its key: nodes of about 8 KiB, Redis' default."""
    nodes = 0
    encode = writing.string
    pieces: list[bytes] = []
    packed: list[bytes] = []
    size = 0

    def finish() -> None:
        nonlocal nodes, size
        if packed:
            nodes += 1
            pieces.append(encode_length(_PACKED) + encode(listpack.pack(packed)))
            packed.clear()
            size = 0

    for element in value.digest_parts():
        if len(element) >= _PLAIN_BYTES:
            finish()
            nodes += 1
            pieces.append(encode_length(_PLAIN) + encode(element))
            continue
        item = listpack.text(element)
        if size + len(item) > _NODE_BYTES - 7:
            finish()
        packed.append(item)
        size += len(item)
    finish()
    yield encode_length(nodes)
    yield from pieces


CODEC: Final[Codec[List]] = Codec(LIST_TYPES, read_list, list_type, encode_list)
