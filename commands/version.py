"""The Redis version that Rillet says it is, for clients that gate features on it."""

from typing import Final

REDIS_VERSION: Final = "8.0.0"
