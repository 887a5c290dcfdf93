"""RDB, the snapshot format of Redis: dump files, bases of append-only files, full syncs, DUMP payloads."""

from .byte_source import ByteSource, PayloadRefusedError, RdbError, is_rdb
from .functions import dump_libraries, restore_libraries
from .reader import RdbInfo, load_rdb, restore_value
from .writer import dump_value, rdb_chunks, stream_type_of, write_rdb

__all__ = [
    "ByteSource",
    "PayloadRefusedError",
    "RdbError",
    "RdbInfo",
    "dump_libraries",
    "dump_value",
    "is_rdb",
    "load_rdb",
    "rdb_chunks",
    "restore_libraries",
    "restore_value",
    "stream_type_of",
    "write_rdb",
]
