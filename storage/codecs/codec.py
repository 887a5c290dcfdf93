"""The form of a data type in RDB files and DUMP payloads, as a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from .encoding import compress_string, encode_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .byte_source import ByteSource

V = TypeVar("V")

# stream-idmp-duration (seconds) and stream-idmp-maxsize, which streams without their own have.
Defaults: TypeAlias = tuple[int, int]
DEFAULTS: Final[Defaults] = (100, 100)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Writing:
    """How values are written.

    Attributes:
        defaults: duration and maxsize of a stream that was never used for IDMP.
        compress: whether strings are compressed where that makes them shorter (rdbcompression).
    """

    defaults: Defaults = DEFAULTS
    compress: bool = False

    @property
    def string(self) -> Callable[[bytes], bytes]:
        """The function that encodes a string."""
        return compress_string if self.compress else encode_string


PLAIN: Final = Writing()


def _same_version(_value: object, version: int) -> int:
    return version


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Extension(Generic[V]):
    """What RDB has no place for: an AUX field of our own after the value, which other servers skip.

    Attributes:
        encode: returns its content from the value and the type byte; empty if it is not needed.
        apply: completes a value that was just read; raises RdbError if the content does not belong to it.
        count: yields what other servers do not find for lack of the field, each with its name in the log.
    """

    field: bytes
    encode: Callable[[V, int], bytes]
    apply: Callable[[V, bytes], None]
    count: Callable[[V, int], Iterator[tuple[str, int]]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Codec(Generic[V]):
    """A data type in RDB.

    Attributes:
        type_bytes: the type bytes that ``read`` understands.
        read: reads a value from the source after the key, given the type byte and whether Valkey wrote it. It yields
            None between steps, so that a server can do other work, and the value last. It raises RdbError if the data
            is damaged. What a proven source says (``ByteSource.proven``) it may check later.
        type_of: returns the type byte of a value for readers of an RDB version.
        encode: yields what follows the key, in pieces, given the type byte and how values are written.
        extension: what of the value the type byte cannot express, in files; None if it expresses everything.
        payload_version: returns the RDB version of a DUMP payload, which has no place for an extension.
        check: checks what ``read`` left unchecked, and yields between steps; None if ``read`` checks everything.
    """

    type_bytes: tuple[int, ...]
    read: Callable[[ByteSource, int, bool], Iterator[V | None]]
    type_of: Callable[[V, int], int]
    encode: Callable[[V, int, Writing], Iterator[bytes]]
    extension: Extension[V] | None = None
    payload_version: Callable[[V, int], int] = _same_version
    check: Callable[[V], Iterator[None]] | None = None
