"""Which Rillet is compared with which real server."""

from support.servers import EVERY_VERSION

# Rillet says that it is a version; the real server of that version is its judge, and nothing else.
PAIRS = [("rillet", "redis810"), ("rillet-7.0", "redis7")]
# `make differential` compares the versions between as well; tests/peers.sh builds their servers.
if EVERY_VERSION:
    PAIRS += [("rillet-8.6", "redis86"), ("rillet-8.2", "redis82")]

# Who judges random runs. There is no real server of 7.2: the Redis before it and after it agree, or Valkey, which left
# Redis between 7.2 and 7.4, may be followed as well.
JUDGES: dict[str, tuple[str, ...]] = {
    "rillet": ("redis810",), "rillet-7.0": ("redis7",), "rillet-7.2": ("redis7", "redis82", "valkey"),
    "rillet-8.2": ("redis82",), "rillet-8.6": ("redis86",),
}  # fmt: skip
# The commands that a judge knows.
VERSIONS = {
    "rillet": "8.10", "rillet-8.6": "8.6", "rillet-8.2": "8.2", "rillet-7.2": "7.0", "rillet-7.0": "7.0",
}  # fmt: skip

NEWEST = "rillet"
