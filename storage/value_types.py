"""The data types: one record for each, which code uses that handles values of any type.

A new type has a class (``collections/base.py`` or one of its own), a codec in ``codecs/``, a record here and a family in
``commands/``: see docs/adding-a-data-type.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from ..protocol.replies import command
from .collections import string
from .collections.base import Collection
from .collections.hash import Hash
from .collections.list import List
from .collections.set import Set
from .collections.sorted_set import SortedSet
from .groups import stream_value
from .streams.stream import Stream

if TYPE_CHECKING:
    from .codecs.codec import Codec, Defaults
    from .collections.encoding_limits import Limits
    from .keyspace.database import Database

V = TypeVar("V")
C = TypeVar("C", bound=Collection)
Value: TypeAlias = bytes | Stream | Collection


class ValueType(Generic[V]):
    """The properties and functions of a data type. Values other than strings are also ``Freeable``.

    A plain class: as a NamedTuple, it would cost each start 1.6 million instructions.
    """

    def __init__(
        self,
        name: bytes,
        cls: type[V],
        find_codec: Callable[[], Codec[V]],
        *,
        rewrite: Callable[[V, bytes, Defaults], Iterator[bytes]],
        rewritten_bytes: Callable[[V, bytes], int],
        copy: Callable[[V], V],
        digest: Callable[[V], Iterator[bytes]],
        memory: Callable[[V, int], int],
        encoding: Callable[[V], bytes],
        serialized_bytes: Callable[[V], int],
        choose_encoding: Callable[[V, Limits], None],
        make_whole: Callable[[V], bool],
        added: Callable[[V, bytes, Database], None] | None = None,
        changes_unseen: bool = False,
        sizes: str = "",
    ) -> None:
        self.name = name  # the reply of TYPE, and the word of SCAN's TYPE option
        self.cls = cls  # the class of its values; subclasses are not registered
        self.find_codec = find_codec  # returns ``codec``, imported at its first use
        # Yields the encoded commands that recreate a value at a key, for a rewritten AOF; without the expiry.
        self.rewrite = rewrite
        self.rewritten_bytes = rewritten_bytes  # approximate length of these commands
        self.copy = copy  # returns a value that shares no mutable state
        # Yields the content for DEBUG DIGEST: the same for equal values, whatever their order in memory.
        self.digest = digest
        # Approximate bytes of memory, without the key; extrapolated from this many parts (0: from all).
        self.memory = memory
        self.encoding = encoding  # the reply of OBJECT ENCODING
        self.serialized_bytes = serialized_bytes  # approximate length of the serialized value (DEBUG OBJECT)
        # Sets the encoding that Redis chooses when it loads such a value.
        self.choose_encoding = choose_encoding
        # Repairs a value after an interrupted change; returns False if nothing is left of it.
        self.make_whole = make_whole
        # Called when a key gets the value, and when a loaded value is completed; None if there is nothing to do.
        self.added = added
        # True if reads and background work also change the memory of a value.
        self.changes_unseen = changes_unseen
        # The suffix of its lines in INFO Keysizes, which count keys by ``len``; empty if it has no such lines.
        self.sizes = sizes

    @property
    def codec(self) -> Codec[V]:
        """How RDB files and DUMP payloads encode its values."""
        return self.find_codec()


def _codec(name: str) -> Callable[[], Codec[Any]]:
    """Return a function that imports a codec once: a server that tests use rarely reads or writes a file."""
    return cache(lambda: cast("Codec[Any]", import_module(f".codecs.{name}", __package__).CODEC))


# Strings


def _set_command(value: bytes, key: bytes, _defaults: Defaults) -> Iterator[bytes]:
    yield command((b"SET", key, value))


def _keep(_value: object, _limits: Limits) -> None:
    """Do nothing: the encoding follows from the value."""


def _needs_no_repair(_value: bytes) -> bool:
    return True


STRING: Final[ValueType[bytes]] = ValueType(
    b"string",
    bytes,
    _codec("strings"),
    rewrite=_set_command,
    rewritten_bytes=string.rewritten_bytes,
    copy=string.copy,
    digest=string.digest_parts,
    memory=string.memory,
    encoding=string.encoding,
    serialized_bytes=string.serialized_bytes,
    choose_encoding=_keep,
    make_whole=_needs_no_repair,
    sizes="strings_sizes",
)

# Hashes, lists, sets, sorted sets: the methods of ``Collection``


def _rewrite(value: Collection, key: bytes, _defaults: Defaults) -> Iterator[bytes]:
    return map(command, value.commands(key))


def _rewritten_bytes(value: Collection, _key: bytes) -> int:
    return value.payload_bytes + len(value) * 10


def _memory(value: Collection, _samples: int) -> int:
    return value.OWN_BYTES + value.ELEMENT_BYTES * len(value) + value.payload_bytes


def _encoding(value: Collection) -> bytes:
    return value.encoding


def _payload_bytes(value: Collection | Stream) -> int:
    return value.payload_bytes


def _make_whole(value: Collection) -> bool:
    value.make_whole()
    return len(value) > 0


def _collection(
    name: bytes,
    cls: type[C],
    codec: Callable[[], Codec[C]],
    added: Callable[[C, bytes, Database], None] | None = None,
    *,
    sizes: str,
) -> ValueType[C]:
    return ValueType(
        name,
        cls,
        codec,
        rewrite=_rewrite,
        rewritten_bytes=_rewritten_bytes,
        copy=cls.copy,
        digest=cls.digest_parts,
        memory=_memory,
        encoding=_encoding,
        serialized_bytes=_payload_bytes,
        choose_encoding=cls.choose_encoding,
        make_whole=_make_whole,
        added=added,
        sizes=sizes,
    )


def _hash_added(value: Hash, key: bytes, db: Database) -> None:
    """Schedule the expiry of its fields."""
    if value.times is not None and (first := value.times.first()) is not None:
        db.field_due.bring_forward(key, first[0])


HASH: Final = _collection(b"hash", Hash, _codec("hashes"), _hash_added, sizes="hashes_items")
LIST: Final = _collection(b"list", List, _codec("lists"), sizes="lists_items")
SET: Final = _collection(b"set", Set, _codec("sets"), sizes="sets_items")
SORTED_SET: Final = _collection(b"zset", SortedSet, _codec("sorted_sets"), sizes="zsets_items")

# Streams


def _rewrite_stream(value: Stream, key: bytes, defaults: Defaults) -> Iterator[bytes]:
    from .codecs.stream_commands import stream_commands

    return stream_commands(value, key, defaults)


def _stream_encoding(_value: Stream) -> bytes:
    return b"stream"


def _stream_added(value: Stream, _key: bytes, db: Database) -> None:
    """Register a stream for background work: count its macro nodes, pack its chunks and expire its idempotent IDs."""
    keyspace = db.keyspace
    value.join(keyspace.behind, keyspace.lazyfree.free_later, keyspace.cold)
    if value.idempotency is not None:
        keyspace.idempotent.add(value.idempotency)


STREAM: Final[ValueType[Stream]] = ValueType(
    b"stream",
    Stream,
    _codec("streams"),
    rewrite=_rewrite_stream,
    rewritten_bytes=stream_value.rewritten_bytes,
    copy=Stream.copy,
    digest=stream_value.digest_parts,
    memory=stream_value.memory,
    encoding=_stream_encoding,
    serialized_bytes=_payload_bytes,
    choose_encoding=_keep,
    make_whole=stream_value.make_whole,
    added=_stream_added,
    changes_unseen=True,
)

TYPES: Final[dict[type, ValueType[Any]]] = {
    each.cls: each for each in (STRING, LIST, SET, SORTED_SET, HASH, STREAM)
}
"""The record of each type, by the class of its values."""


def type_name(value: Value | None) -> bytes:
    """Return the reply of TYPE; ``none`` for a missing key."""
    return b"none" if value is None else TYPES[type(value)].name
