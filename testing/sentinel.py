"""A master, its replicas, and a sentinel that monitors them, for tests of clients."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from .clients import close, need_redis
from .process import InWith
from .server import Server

if TYPE_CHECKING:
    import redis
    import redis.asyncio
    from redis.sentinel import Sentinel as RedisSentinel

_PATIENCE: Final = timedelta(seconds=30)
_SILENT: Final = timedelta(seconds=5)
_POLL_SECONDS: Final = 0.01


class Sentinel(InWith):
    """A Rillet in sentinel mode over a Rillet master and replicas; use it in a ``with``.

    Args:
        replicas: the number of replicas.
        name: the name of the master.
        port: the sentinel's port; 0 picks a free one.
        down_after: how long a server must be silent to count as down, as ``down-after-milliseconds``. None: a
            stopped server counts as down at once, and one that hangs after five seconds.
        failover_timeout: a failed failover is retried after twice this time.
        process: run each server in its own process instead of a thread.
        directives: directives of the master and the replicas, as in ``Server``. By default, snapshots are sent to replicas
            without a delay (``repl_diskless_sync_delay=0``). ``requirepass`` applies to the master and the replicas;
            the sentinel needs no password.
    """

    def __init__(
        self,
        *,
        replicas: int = 2,
        name: str = "mymaster",
        port: int = 0,
        down_after: timedelta | None = None,
        failover_timeout: timedelta = timedelta(seconds=3),
        process: bool = False,
        **directives: object,
    ) -> None:
        if replicas < 0:
            raise ValueError("a master has no negative number of replicas")
        self.name = name
        self.host = "127.0.0.1"
        self._count = replicas
        self._process = process
        password = directives.get("requirepass")
        always = {"repl_diskless_sync_delay": 0} | ({"masterauth": password} if password else {})
        self._directives: dict[str, Any] = always | directives
        self._lines = [
            f"down-after-milliseconds {name} {_milliseconds(down_after or _SILENT)}",
            f"failover-timeout {name} {_milliseconds(failover_timeout)}",
            f"down-if-refused {'yes' if down_after is None else 'no'}",
            *([f"auth-pass {name} {_quoted(password)}"] if password else []),
        ]
        self.servers: list[Server] = []
        self._sentinel = SentinelServer([], port=port, process=process)

    def start(self) -> Sentinel:
        """Start all servers, and wait until the replicas follow and the sentinel knows them.

        Raises:
            StartError: a server did not start; the text is its own.
        """
        if self.servers:
            return self
        try:
            master = _Node(process=self._process, **self._directives)
            self.servers.append(master.start())
            place = master.host, master.port
            for _ in range(self._count):
                replica = _Node(process=self._process, replicaof=place, **self._directives)
                self.servers.append(replica.start())
            monitor = f"monitor {self.name} {master.host} {master.port} 1"
            self._sentinel.lines = [monitor, *self._lines]
            self._sentinel.start()
            self.wait_until_settled()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all servers.

        Raises:
            StopError: one did not stop; the others have.
        """
        with contextlib.ExitStack() as stops:
            for server in reversed([self._sentinel, *self.servers]):
                stops.callback(server.stop)
            self.servers.clear()

    def _leave(self) -> None:
        self.stop()

    def _forget_faults(self) -> None:
        for server in self.servers:
            server._forget_faults()  # noqa: SLF001 - of the same package

    # The servers

    @property
    def port(self) -> int:
        """The port of the sentinel."""
        return self._sentinel.port

    @property
    def url(self) -> str:
        """``redis+sentinel://127.0.0.1:26379/mymaster/0``."""
        return f"redis+sentinel://{self.host}:{self.port}/{self.name}/0"

    @property
    def master(self) -> Server:
        """The server that the sentinel names as the master; it may be stopped.

        Raises:
            LookupError: the sentinel was sent ``SENTINEL REMOVE``.
        """
        place = self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        if place is None:
            raise LookupError(f"the sentinel does not monitor {self.name}")
        return next(server for server in self.servers if server.port == int(place[1]))

    @property
    def replicas(self) -> list[Server]:
        """All servers except the master, including stopped ones."""
        master = self.master
        return [server for server in self.servers if server is not master]

    # For tests

    def command(self, *words: str) -> Any:
        """Run a command on the sentinel; raise error replies as ``hiredis.ReplyError``."""
        return self._sentinel.command(*[word.encode() for word in words])

    def fail_over(self) -> Server:
        """Fail over to a replica, wait until the others follow it, and return it.

        Raises:
            hiredis.ReplyError: NOGOODSLAVE or INPROG.
            TimeoutError: as ``wait_until_settled``.
        """
        before = self.master
        self.command("SENTINEL", "FAILOVER", self.name)
        return self._wait(lambda: self.master is not before, _PATIENCE)

    def wait_until_settled(self, timeout: timedelta = _PATIENCE) -> Server:
        """Wait until the sentinel's master runs and every other running server follows it; return the master.

        Raises:
            TimeoutError: the text gives the role of each server.
        """
        return self._wait(lambda: True, timeout)

    def _wait(self, is_right: Callable[[], bool], timeout: timedelta) -> Server:
        deadline = time.monotonic() + timeout.total_seconds()
        while not (is_right() and self._is_settled()):
            if time.monotonic() > deadline:
                states = [
                    f"{server.port}: {_role(server) if server.running else 'stopped'}"
                    for server in self.servers
                ]
                raise TimeoutError(
                    f"The sentinel did not settle. Master: {self.master.port}; {', '.join(states)}"
                )
            time.sleep(_POLL_SECONDS)
        return self.master

    def _is_settled(self) -> bool:
        master = self.master
        if not master.running or _role(master)[:1] != [b"master"]:
            return False
        followers = {server.port for server in self.servers if server.running and server is not master}
        known = [_pairs(reply) for reply in self.command("SENTINEL", "REPLICAS", self.name)]
        following = {
            int(each[b"port"])
            for each in known
            if each[b"flags"] == b"slave"
            and each[b"master-link-status"] == b"ok"
            and int(each[b"master-port"]) == master.port
        }
        state = _pairs(self.command("SENTINEL", "MASTER", self.name))
        return state[b"flags"] == b"master" and followers <= following

    # Clients

    def client(self, **options: Any) -> redis.Redis:
        """Return a redis-py client that follows the current master; ``options`` are redis-py's."""
        client: redis.Redis = self.sentinel(**options).master_for(self.name)  # type: ignore[no-untyped-call]
        return client

    def replica_client(self, **options: Any) -> redis.Redis:
        """Return a redis-py client that reads from the replicas."""
        client: redis.Redis = self.sentinel(**options).slave_for(self.name)  # type: ignore[no-untyped-call]
        return client

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """Return a ``redis.asyncio`` client of the master; closing it also closes its connections to the sentinel."""
        need_redis()
        from redis.asyncio import Redis
        from redis.asyncio.sentinel import Sentinel as AsyncRedisSentinel

        places = [(self.host, self.port)]
        found = AsyncRedisSentinel(places, **self._options(options))  # type: ignore[no-untyped-call]

        class Client(Redis):
            async def aclose(self, close_connection_pool: bool | None = None) -> None:
                end = super().aclose if hasattr(Redis, "aclose") else super().close
                await end(close_connection_pool)
                for each in found.sentinels:
                    await close(each)

            close = aclose  # the name in redis-py before 5.0.1

        client: redis.asyncio.Redis = found.master_for(self.name, redis_class=Client)
        return client

    def sentinel(self, **options: Any) -> RedisSentinel:
        """Return redis-py's ``Sentinel``; ``options`` are those of its clients."""
        need_redis()
        from redis.sentinel import Sentinel as RedisSentinel

        places = [(self.host, self.port)]
        return RedisSentinel(places, **self._options(options))  # type: ignore[no-untyped-call]

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        password = self._directives.get("requirepass")
        return {"sentinel_kwargs": {}} | ({"password": str(password)} if password else {}) | options


class _Node(Server):
    """A server that restarts in the role in which it stopped, as if CONFIG REWRITE had saved that."""

    _default_transport = "tcp"  # of clients that ask a sentinel

    def _end(self) -> None:
        role = _role(self) if self.running else []
        if role[:1] == [b"master"]:
            self._directives.pop("replicaof", None)
        elif role[:1] == [b"slave"]:
            self._directives["replicaof"] = role[1].decode(), role[2]
        super()._end()


class SentinelServer(Server):
    """The sentinel process alone; ``lines`` are the lines of sentinel.conf without the word ``sentinel``."""

    _default_transport = "tcp"

    def __init__(self, lines: list[str], *, port: int = 0, process: bool = False) -> None:
        super().__init__(port=port, process=process)
        self.lines = lines

    def command(self, *words: bytes) -> Any:
        """Run a command and return its reply; raise error replies."""
        return self._command(*words)

    def _flags(self) -> list[str]:
        flags = ["--sentinel", "--port", str(self.port), "--bind", self.host]
        return [*flags, *(f"--sentinel {line}" for line in self.lines)]


def _role(server: Server) -> list[Any]:
    """Return the reply of ROLE; [] if the server is stopping, disconnects its clients or refuses them."""
    import hiredis

    try:
        return list(server._command(b"ROLE"))  # noqa: SLF001 - of the same package
    except (OSError, hiredis.ReplyError):
        return []


def _pairs(reply: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _quoted(word: object) -> str:
    from ..protocol.inline import quote

    return quote(str(word).encode()).decode()


def _milliseconds(time_: timedelta) -> int:
    return max(round(time_ / timedelta(milliseconds=1)), 1)
