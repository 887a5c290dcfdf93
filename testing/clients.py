"""Creation of redis-py clients for test servers."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..storage.gc_pause import gc_paused

if TYPE_CHECKING:
    import redis.asyncio

    C = TypeVar("C")


# Made-up ports of clients without a socket, above the usual ephemeral ports.
PORTS: Final = count(61_000)


def need_redis() -> None:
    """Import redis-py, or raise an error that says what to install. Servers do not need redis-py.

    Raises ImportError: redis-py is not installed.
    """
    try:
        with gc_paused():  # an import creates no garbage
            import redis  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError(
            "rillet.testing makes clients of redis-py, which is not installed: pip install 'rillet[testing]'. "
            "Any other client library can use the server's url",
            name="redis",
        ) from error


def for_client(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Return ``options`` with defaults added that make each new connection of the client class ``kind`` cheaper.

    For each connection, redis-py reads its version from the package metadata (from 7.2 on; 0.3 ms), and asks the server for
    maintenance notifications (from 7 on), which Rillet does not send. If the application sets driver information, nothing
    is added.
    """
    if options.keys() & {"driver_info", "lib_name", "lib_version"}:
        return options
    return _spared(kind) | options


@functools.cache
def _spared(kind: type) -> dict[str, Any]:
    spared: dict[str, Any] = {}
    with contextlib.suppress(ImportError):  # before redis-py 7
        from redis.maint_notifications import MaintNotificationsConfig

        spared["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    with contextlib.suppress(ImportError):  # redis-py 7.0 and 7.1 read their version only once
        from redis.driver_info import DriverInfo

        spared["driver_info"] = DriverInfo()
    known = inspect.signature(kind).parameters  # in redis-py 7 asyncio has no such notifications
    return {name: value for name, value in spared.items() if name in known}


def client_like(like: Callable[..., C], url: str, options: Mapping[str, Any], *, is_async: bool) -> C:
    """Create a client by ``like``, as an application does, connected to a server.

    Args:
        like: a client class of redis-py, or a function with the same parameters.
        is_async: whether it must be a ``redis.asyncio`` client.

    Raises TypeError: ``like`` is a class of the other kind, or cannot be called.
    """
    import redis.asyncio
    from redis.connection import parse_url

    wrong, right = (redis.Redis, redis.asyncio.Redis)[:: 1 if is_async else -1]
    given: object = like
    if not callable(given) or (isinstance(given, type) and issubclass(given, wrong)):
        name = f"{right.__module__.removesuffix('.client')}.{right.__name__}"
        raise TypeError(f"like= wants {name}, a class derived from it or a function, not {like!r}")
    place: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    kind = place.pop("connection_class", None)
    if "path" in place:
        place["unix_socket_path"] = place.pop("path")
    elif kind is not None:
        place["ssl"] = True
    return like(**place | dict(options))


async def close(client: redis.asyncio.Redis) -> None:
    """Close an asynchronous redis-py client and its connections; redis-py before 5.0.1 has no ``aclose``."""
    await (client.aclose() if hasattr(client, "aclose") else client.close(close_connection_pool=True))
