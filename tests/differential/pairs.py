"""Which Rillet is compared with which real server."""

from __future__ import annotations

from support.servers import EVERY_VERSION

# Rillet says that it is a version; the real server of that version is its judge, and nothing else.
PAIRS = [("rillet", "redis810"), ("rillet-7.0", "redis7")]
# `make differential` compares the versions between as well; tests/peers.sh builds their servers.
if EVERY_VERSION:
    PAIRS += [("rillet-8.6", "redis86"), ("rillet-8.2", "redis82")]

NEWEST = "rillet"
