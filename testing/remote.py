"""A server that runs elsewhere, in the place of a test server: ``--rillet-url``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .clients import client_like, need_redis
from .spies import HasStreams

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    import redis.asyncio


class RemoteServer(HasStreams):
    """A running Redis, Valkey or Rillet, with what a ``rillet.testing.Server`` can do on any of them.

    Args:
        url: ``redis://…``, ``rediss://…`` or ``unix://…``.

    Attributes:
        host, port: where it listens; of a Unix socket "" and 0.
    """

    def __init__(self, url: str) -> None:
        need_redis()
        import redis

        self.url = url
        self._control = redis.Redis.from_url(url)
        self._control.response_callbacks.clear()
        options = self._control.connection_pool.connection_kwargs
        self.host = str(options.get("host", ""))
        self.port = int(options.get("port", 0))

    def client(self, *, like: Callable[..., redis.Redis] | None = None, **options: Any) -> redis.Redis:
        """Return a new redis-py client; ``like`` as in ``rillet.testing.Server``."""
        import redis

        if like is not None:
            return client_like(like, self.url, options, is_async=False)
        return redis.Redis.from_url(self.url, **options)

    client_of_test = client  # which closes it at the end

    def async_client(
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client; ``like`` as in ``rillet.testing.Server``."""
        import redis.asyncio

        if like is not None:
            return client_like(like, self.url, options, is_async=True)
        return redis.asyncio.Redis.from_url(self.url, **options)

    def reset(self) -> None:
        """Remove all keys of all databases; nothing else is as it was at the start."""
        self._command(b"FLUSHALL")

    def is_empty(self) -> bool:
        """Whether no database has a key."""
        text: bytes = self._command(b"INFO", b"keyspace")
        return b"keys=" not in text

    def close(self) -> None:
        """Close the connection of this object."""
        self._control.close()

    def _command(self, *words: bytes) -> Any:
        """Run one command as ``rillet.testing.Server`` does: the same replies, the same errors."""
        import hiredis
        import redis

        try:
            return self._control.execute_command(*words)  # type: ignore[no-untyped-call]
        except redis.ResponseError as error:
            raise hiredis.ReplyError(f"ERR {error}") from None
