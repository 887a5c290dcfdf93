"""The bytes that start a part of an RDB file other than a key."""

from typing import Final

HASH_TEMPLATE: Final = 0xF2
SLOT_IMPORT_OR_KEY_META: Final = 0xF3  # slot import in Valkey, key metadata in Redis
SLOT_INFO: Final = 0xF4
FUNCTION: Final = 0xF5
MODULE_AUX: Final = 0xF7
IDLE: Final = 0xF8
FREQUENCY: Final = 0xF9
AUX: Final = 0xFA
RESIZE: Final = 0xFB
EXPIRE_MS: Final = 0xFC
EXPIRE: Final = 0xFD
SELECT: Final = 0xFE
END: Final = 0xFF
