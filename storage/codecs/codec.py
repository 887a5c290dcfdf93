"""The functions that read and write a data type in RDB files and DUMP payloads, as a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from .encoding import compress_string, encode_string

if TYPE_CHECKING:
    from .byte_source import ByteSource

V = TypeVar("V")

# stream-idmp-duration (seconds) and stream-idmp-maxsize: the settings of streams without their own.
Defaults: TypeAlias = tuple[int, int]
DEFAULTS: Final[Defaults] = (100, 100)


class Writing(NamedTuple):
    """Options for encoding values as RDB."""

    defaults: Defaults = DEFAULTS  # duration and maxsize of a stream that was never used for IDMP
    compress: bool = False  # compress strings if that makes them shorter (rdbcompression)

    @property
    def string(self) -> Callable[[bytes], bytes]:
        """The function that encodes an RDB string, with LZF compression if ``compress`` is set."""
        return compress_string if self.compress else encode_string


PLAIN: Final = Writing()


def _same_version(_value: object, version: int) -> int:
    return version


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Extension(Generic[V]):
    """An AUX field of our own after a value: data that its RDB type cannot express.

    Other servers skip the field.
    """

    field: bytes  # the name of the field
    # Returns the content of the field from the value and the type byte; empty if the field is not needed.
    encode: Callable[[V, int], bytes]
    # Completes a value that was just read; raises RdbError if the content does not belong to it.
    apply: Callable[[V, bytes], None]
    # Yields the number of items that other servers miss without the field, each with its name in the log.
    count: Callable[[V, int], Iterator[tuple[str, int]]]


class Codec(NamedTuple, Generic[V]):
    """The functions that read and write one data type in RDB."""

    type_bytes: tuple[int, ...]  # the type bytes that ``read`` understands
    # Reads a value from the source after the key, given the type byte and whether Valkey wrote it. It yields None
    # between steps, so that a server can do other work, and the value last. It raises RdbError if the data is
    # damaged. It may leave parts of a proven source (``ByteSource.proven``) to ``check``.
    read: Callable[[ByteSource, int, bool], Iterator[V | None]]
    type_of: Callable[[V, int], int]  # returns the type byte of a value for readers of an RDB version
    # Yields the bytes after the key, in pieces, given the type byte and the options for writing.
    encode: Callable[[V, int, Writing], Iterator[bytes]]
    # The data that the type byte cannot express, for files; None if it expresses everything.
    extension: Extension[V] | None = None
    # Returns the RDB version of a DUMP payload, which cannot hold an extension: the given version, or the first one
    # that can express the whole value.
    payload_version: Callable[[V, int], int] = _same_version
    # Checks the parts that ``read`` left out, and yields between steps; None if ``read`` checks everything.
    check: Callable[[V], Iterator[None]] | None = None
