"""RDB, the snapshot format of Redis: dump files, bases of append-only files, full syncs, DUMP payloads."""

from ..codecs.byte_source import ByteSource, PayloadRefusedError, is_rdb
from ..loading import RdbError, RdbInfo
from .payloads import dump_libraries, dump_value, restore_libraries, restore_value
from .reader import load_rdb
from .rillet_only_data import Unsaid
from .writer import rdb_chunks

__all__ = [
    "ByteSource", "PayloadRefusedError", "RdbError", "RdbInfo", "Unsaid", "dump_libraries", "dump_value",
    "is_rdb", "load_rdb", "rdb_chunks", "restore_libraries", "restore_value",
]  # fmt: skip
