"""Options of the redis-py clients that test servers make."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any


def for_client(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a redis-py client, with those that spare each connection a search and three requests.

    redis-py 7 and later reads its version from the metadata of its package for each connection, 0.3 ms, tells the server its
    name and version (CLIENT SETINFO, twice), and asks for notifications about maintenance, which none of Rillet's sends.
    """
    if options.keys() & {"driver_info", "lib_name", "lib_version"}:
        return options
    return _spared() | options


@functools.cache
def _spared() -> dict[str, Any]:
    if find_spec("redis.driver_info") is None:  # an older one
        return {}
    from redis.maint_notifications import MaintNotificationsConfig

    return {
        "driver_info": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
