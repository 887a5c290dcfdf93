"""The source code of function libraries, as data for RDB, AOF and replicas.

``commands/scripting/lua`` runs it.
"""

from __future__ import annotations

from typing import Final

from ...protocol.inline import split_inline

_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class LibraryError(ValueError):
    """The text is not a library; the only argument is the error reply as bytes."""


class Libraries:
    """The source code of the function libraries, by name."""

    def __init__(self) -> None:
        self.codes: dict[bytes, bytes] = {}  # source code by name
        self.version = 0  # increases with every change

    def __len__(self) -> int:
        return len(self.codes)

    def put(self, name: bytes, code: bytes) -> None:
        """Store a library; replace one of the same name."""
        self.codes[name] = code
        self.version += 1

    def remove(self, name: bytes) -> None:
        """Remove the library of this name, if there is one."""
        if self.codes.pop(name, None) is not None:
            self.version += 1

    def clear(self) -> None:
        """Remove all libraries."""
        if self.codes:
            self.codes.clear()
            self.version += 1

    def take_over(self, other: Libraries) -> None:
        """Replace all libraries by those of another object."""
        if self.codes != other.codes:
            self.codes = dict(other.codes)
            self.version += 1


def library_head(code: bytes) -> tuple[bytes, bytes]:
    """Return the name in a library's first line, and its code with unchanged line numbers.

    Raises LibraryError: the line is missing or malformed.
    """
    if not code.startswith(b"#!"):
        raise LibraryError(b"ERR Missing library metadata")
    end = code.find(b"\n")
    words = split_inline(code[:end]) if end >= 0 and b"\0" not in code[:end] else None
    if words is None:
        raise LibraryError(b"ERR Invalid library metadata")
    engine, *options = words
    engine = engine[2:]
    name: bytes | None = None
    for option in options:
        field, equals, value = option.partition(b"=")
        if field.lower() != b"name" or not equals:
            raise LibraryError(b"ERR Invalid metadata value given: %b" % option)
        if name is not None:
            raise LibraryError(b"ERR Invalid metadata value, name argument was given multiple times")
        name = value
    if name is None:
        raise LibraryError(b"ERR Library name was not given")
    if not name or not _LETTERS.issuperset(name):
        raise LibraryError(
            b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one "
            b"character long"
        )
    if engine.lower() != b"lua":
        raise LibraryError(b"ERR Engine '%b' not found" % engine)
    return name, code[end:]
