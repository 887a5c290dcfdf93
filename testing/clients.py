"""Options of the redis-py clients that test servers make."""

from __future__ import annotations

import functools
from typing import Any


def for_client(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a redis-py client, with those that spare each connection a search and a request.

    redis-py 7 and later reads its version from the metadata of its package for each connection, 0.3 ms, and asks the server
    for notifications about maintenance, which none of Rillet's sends.
    """
    if options.keys() & {"driver_info", "lib_name", "lib_version"}:
        return options
    return _spared() | options


@functools.cache
def _spared() -> dict[str, Any]:
    try:
        from redis.driver_info import DriverInfo
        from redis.maint_notifications import MaintNotificationsConfig
    except ImportError:  # an older one
        return {}
    return {
        "driver_info": DriverInfo(),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
