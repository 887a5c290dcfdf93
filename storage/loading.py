"""What a load of files reports: its error, or its statistics; also for code that rarely needs the modules that read files."""

from __future__ import annotations


class AofError(Exception):
    """The append-only file cannot be used; the text is what Redis would log before it exits."""


class RdbError(Exception):
    """The RDB data cannot be read; the text says why."""


class RdbInfo:
    """Statistics and metadata of the load of an RDB file."""

    def __init__(self) -> None:
        self.version = 0  # of the RDB format; 0 until the head is read
        # The fields at the head of the file: ``redis-ver``, ``ctime``, ``repl-id``, ``repl-offset`` …
        self.aux: dict[bytes, bytes] = {}
        self.keys = 0  # number of keys loaded
        self.expired = 0  # number of expired keys in the file, dropped or loaded
        self.skipped = 0  # number of keys left out because Rillet does not have their type
        self.empty = 0  # number of keys left out because their collection has no element
        self.expires = 0  # number of keys with an expiry, expired or not
        self.checked = False  # whether the file has a checksum and it is right
