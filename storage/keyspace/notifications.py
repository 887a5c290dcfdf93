"""Classes of keyspace notifications, as bits (notify-keyspace-events)."""

from __future__ import annotations

from typing import Final

KEYSPACE: Final = 1 << 0  # K
KEYEVENT: Final = 1 << 1  # E
GENERIC: Final = 1 << 2  # g
STRING: Final = 1 << 3  # $
LIST: Final = 1 << 4  # l
SET: Final = 1 << 5  # s
HASH: Final = 1 << 6  # h
ZSET: Final = 1 << 7  # z
EXPIRED: Final = 1 << 8  # x
EVICTED: Final = 1 << 9  # e
STREAM: Final = 1 << 10  # t
MISS: Final = 1 << 11  # m
MODULE: Final = 1 << 12  # d
NEW: Final = 1 << 13  # n
OVERWRITTEN: Final = 1 << 14  # o
TYPE_CHANGED: Final = 1 << 15  # c
ARRAY: Final = 1 << 16  # a
# Events about hash fields; each class has its own channels.
SUBKEYSPACE: Final = 1 << 17  # S
SUBKEYEVENT: Final = 1 << 18  # T
SUBKEYSPACEITEM: Final = 1 << 19  # I
SUBKEYSPACEEVENT: Final = 1 << 20  # V
