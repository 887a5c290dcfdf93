"""Read RDB: load files into a keyspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..codecs.byte_source import ByteSource, EmptyValueError
from ..codecs.encoding import read_length, read_string, skip_string
from ..codecs.hash_templates import read_template
from ..files import Log, silent
from ..keyspace.frequency import stored
from ..keyspace.function_libraries import LibraryError, library_head
from ..loading import RdbError, RdbInfo
from ..value_types import TYPES, Value, ValueType
from . import opcodes
from .module_values import skip_module_data, skip_value, type_name

if TYPE_CHECKING:
    from ..keyspace.database import Database
    from ..keyspace.keyspace import Keyspace

# The record of each type, by its type bytes.
BY_TYPE_BYTE: Final[dict[int, ValueType[Any]]] = {
    value_type: each for each in TYPES.values() for value_type in each.codec.type_bytes
}
# The AUX fields of our own that may follow a value.
_EXTENSIONS: Final = frozenset(
    each.codec.extension.field for each in TYPES.values() if each.codec.extension is not None
)
# Redis up to 8.10 has these versions; Valkey since 9.0 counts from 80.
REDIS_VERSIONS: Final = range(1, 17)
VALKEY_VERSIONS: Final = range(80, 90)
_FIRST_WITH_CHECKSUM: Final = 5
# Bytes of small keys to load before the caller may do other work.
_PAUSE_AFTER: Final = 1 << 16
_KEYS_AT_ONCE: Final = 4096  # keys to check between two pauses


def load_rdb(
    source: ByteSource,
    keyspace: Keyspace | None,
    *,
    skip_unknown: bool = False,
    drop_expired: bool = False,
    on_dropped: Callable[[Database, bytes], None] | None = None,
    allow_duplicates: bool = False,
    sanitize: bool = False,
    log: Log = silent,
    info: RdbInfo | None = None,
    now: int | None = None,
) -> Iterator[None]:
    """Load an RDB file into a keyspace, and verify its checksum, unless it has none or the keyspace skips checksums.

    Yields from time to time, so that a server can answer its clients meanwhile.

    Raises RdbError: the file is damaged, too new, or holds something that Rillet does not have.

    Args:
        source: the bytes of the file; bytes after its end are not read (an AOF whose head is RDB).
        keyspace: None reads everything and keeps nothing.
        skip_unknown: leave out values of types that Rillet does not have, with a warning each.
        drop_expired: leave out expired keys, as a master does with its dump file.
        on_dropped: called with each of these keys.
        allow_duplicates: a key or a library of functions may exist already; that of the file replaces it.
        sanitize: check everything now. Otherwise parts of a file with a right checksum are checked when they are read
            (nodes of streams, see ``codecs/stream_nodes``).
        log: receives a line for each part of the file that is left out.
        info: filled in with the statistics and metadata of the file.
        now: the time that decides which keys have expired, in milliseconds; by default the keyspace's.
    """
    if now is None:
        now = 0 if keyspace is None else keyspace.now
    yield from _Loader(
        source,
        keyspace,
        skip_unknown,
        drop_expired,
        on_dropped,
        allow_duplicates,
        sanitize,
        log,
        info or RdbInfo(),
        now,
    ).run()


@dataclass(slots=True, eq=False, repr=False)
class _Loader:
    """One load: its arguments, its position in the file, and the attributes of the next key."""

    source: ByteSource
    keyspace: Keyspace | None
    skip_unknown: bool
    drop_expired: bool
    on_dropped: Callable[[Database, bytes], None] | None
    allow_duplicates: bool
    sanitize: bool
    log: Log
    info: RdbInfo
    now: int
    database: int = 0
    expiry: int | None = None
    idle: int = 0  # seconds
    frequency: int | None = None
    last: tuple[Database, bytes, Value] | None = None  # the last key, which an extension field may complete
    valkey: bool = False

    def run(self) -> Iterator[None]:
        source = self.source
        source.begin_checksum()
        self._read_head()
        source.proven = not self.sanitize and self.keyspace is not None
        paused_at = source.position
        while (opcode := source.byte()) != opcodes.END:
            if opcode >= opcodes.HASH_TEMPLATE:
                self._read_part(opcode)
            else:
                yield from self._read_key(opcode)
            if source.position - paused_at >= _PAUSE_AFTER:
                paused_at = source.position
                yield None
        if self.info.version >= _FIRST_WITH_CHECKSUM:
            counted = source.checksum()
            written = int.from_bytes(source.take(8), "little")
            skips = self.keyspace is not None and self.keyspace.skips_checksums
            if written not in {0, counted} and not skips:
                raise RdbError(
                    f"Wrong RDB checksum expected: ({written:x}) but got ({counted:x}). Aborting now."
                )
            self.info.checked = written == counted
        if source.proven and not self.info.checked:
            yield from self._check_values()
        source.proven = False

    def _check_values(self) -> Iterator[None]:
        """Check the values that were not checked on the assumption of a checksum, if the file has none."""
        assert self.keyspace is not None
        for database in self.keyspace.databases:
            for number, (key, value) in enumerate(list(database.entries.items())):
                if number % _KEYS_AT_ONCE == 0:
                    yield None
                check = TYPES[type(value)].codec.check
                if check is None:
                    continue
                try:
                    yield from check(value)
                except RdbError as error:
                    raise RdbError(f"{error} (key '{_shown(key)}')") from error

    def _read_head(self) -> None:
        head = self.source.take(9)
        self.valkey = head.startswith(b"VALKEY")
        name, digits = (b"VALKEY", head[6:]) if self.valkey else (b"REDIS", head[5:])
        if not head.startswith(name):
            raise RdbError("Wrong signature trying to load DB from file")
        known = VALKEY_VERSIONS if self.valkey else REDIS_VERSIONS
        if not digits.isdigit() or int(digits) not in known:
            raise RdbError(f"Can't handle RDB format version {digits.decode(errors='backslashreplace')}")
        self.info.version = int(digits)

    def _read_part(self, opcode: int) -> None:
        """Read a part other than a key."""
        source = self.source
        if opcode == opcodes.EXPIRE_MS:
            self.expiry = int.from_bytes(source.take(8), "little", signed=True)
        elif opcode == opcodes.EXPIRE:
            self.expiry = int.from_bytes(source.take(4), "little", signed=True) * 1000
        elif opcode == opcodes.IDLE:
            self.idle = read_length(source)
        elif opcode == opcodes.FREQUENCY:
            self.frequency = source.byte()
        elif opcode == opcodes.SELECT:
            self._select(read_length(source))
        elif opcode == opcodes.RESIZE:
            read_length(source)
            read_length(source)
        elif opcode == opcodes.AUX:
            name, text = read_string(source), read_string(source)
            if name not in _EXTENSIONS:
                self.info.aux[name] = text
            elif self.last is not None:
                self._complete(name, text, *self.last)
        elif opcode == opcodes.FUNCTION:
            self._keep_library(read_string(source))
        elif opcode == opcodes.MODULE_AUX:
            read_length(source)
            read_length(source)  # a time: the kind of a number, and the number
            read_length(source)
            skip_module_data(source)
            self.log("Data of a module in the RDB file is left out: Rillet has no modules")
        elif opcode == opcodes.HASH_TEMPLATE:
            read_template(source)
        elif opcode == opcodes.SLOT_INFO:
            for _ in range(3):
                read_length(source)
        elif opcode == opcodes.SLOT_IMPORT_OR_KEY_META and self.valkey:
            skip_string(source)
            for _ in range(2 * read_length(source)):
                read_length(source)
        elif opcode == opcodes.SLOT_IMPORT_OR_KEY_META:
            for _ in range(read_length(source)):
                source.skip(4)
                skip_module_data(source)
        else:
            raise RdbError("Pre-release function format not supported.")

    def _keep_library(self, code: bytes) -> None:
        try:
            name, _ = library_head(code)
        except LibraryError as error:
            raise RdbError(
                f"Failed loading a function library: {error.args[0].decode(errors='replace')}"
            ) from error
        if self.keyspace is None:
            return
        if name in self.keyspace.libraries.codes and not self.allow_duplicates:
            raise RdbError(f"RDB has the function library '{_shown(name)}' twice")
        self.keyspace.libraries.put(name, code)

    def _select(self, index: int) -> None:
        if self.keyspace is not None and index >= len(self.keyspace.databases):
            raise RdbError(
                "FATAL: Data file was created with a server configured to handle more than "
                f"{len(self.keyspace.databases)} databases. Exiting"
            )
        self.database = index

    def _read_key(self, value_type: int) -> Iterator[None]:
        source = self.source
        key = read_string(source)
        expiry, self.expiry = self.expiry, None
        idle, self.idle = self.idle, 0
        frequency, self.frequency = self.frequency, None
        self.last = None
        kind = BY_TYPE_BYTE.get(value_type)
        if kind is None:
            self._skip(key, value_type)
            return
        value: Value | None = None
        self.info.keys += 1
        self.info.expires += expiry is not None
        try:
            for value in kind.codec.read(source, value_type, self.valkey):
                if value is None:
                    yield None
        except EmptyValueError:
            self.info.keys -= 1
            self.info.expires -= expiry is not None
            self.info.empty += 1
            return
        except RdbError as error:
            raise RdbError(f"{error} (key '{_shown(key)}')") from error
        assert value is not None
        is_over = expiry is not None and expiry < self.now
        self.info.expired += is_over
        keyspace = self.keyspace
        if keyspace is None:
            return
        if is_over and self.drop_expired:
            self.info.keys -= 1
            if self.on_dropped is not None:
                self.on_dropped(keyspace.databases[self.database], key)
            return
        database = keyspace.databases[self.database]
        if key in database.entries:
            if not self.allow_duplicates:
                raise RdbError(f"RDB has duplicated key '{_shown(key)}' in DB {database.index}")
            database.remove(key)
        database.add(key, value, is_loaded=True)
        if keyspace.usage is None:
            database.accessed[key] -= idle * 1000
        elif frequency is not None:
            database.frequencies[key] = stored(frequency, keyspace.now)
        if expiry is not None:
            database.set_expiry(key, expiry)
        kind.choose_encoding(value, keyspace.limits)
        self.last = database, key, value

    @staticmethod
    def _complete(field: bytes, content: bytes, database: Database, key: bytes, value: Value) -> None:
        """Apply our own field to the key before it, unless it belongs to another type."""
        kind = TYPES[type(value)]
        extension = kind.codec.extension
        if extension is None or extension.field != field:
            return
        extension.apply(value, content)
        if kind.added is not None:
            kind.added(value, key, database)

    def _skip(self, key: bytes, value_type: int) -> None:
        """Skip a value of an unknown type, or raise RdbError if that is not allowed or not possible."""
        what = f"key '{_shown(key)}' holds a {type_name(value_type)}"
        if not self.skip_unknown and self.keyspace is not None:
            raise RdbError(
                f"{what}, which Rillet does not have; "
                "rdb-skip-unknown-types yes loads the file without such keys"
            )
        try:
            skip_value(self.source, value_type)
        except RdbError as error:
            raise RdbError(f"{what}: {error}") from error
        self.info.skipped += 1
        if self.keyspace is not None:
            self.log(f"Left out: {what}")


def _shown(key: bytes) -> str:
    text = key[:128].decode(errors="backslashreplace")
    return text if len(key) <= 128 else f"{text}..."
