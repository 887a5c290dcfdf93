"""Keep redis-py clients across a reset of their server: the socket stays open, and the server forgets the session.

A new redis-py client costs a test 0.1 ms, and its socket and greeting 0.25 ms; repeating the greeting on an open socket
costs 0.05 ms (processor time of client and server, 2026-11-28). The greeting (HELLO, CLIENT SETINFO …) is sent together
with the first command.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

_HELLO: Final = b"\r\nHELLO\r\n"
# A server without them refuses these, which redis-py ignores.
_OPTIONAL: Final = (b"\r\nSETINFO\r\n", b"\r\nMAINT_NOTIFICATIONS\r\n")
# Attributes of a client and its parts that normal use changes, or that are shared between clients.
_MOVING: Final = {
    "_available_connections", "_created_connections", "_in_use_connections",
    "_sock", "_parser", "_handshake_metadata", "handshake_metadata", "next_health_check", "greeting", "address", "is_asleep",
    "_command_packer", "_event_dispatcher", "event_dispatcher",
}  # fmt: skip
_ATOMS: Final = (str, bytes, int, float, type(None), type)


@functools.cache
def connection_class() -> type[redis.Connection]:
    """Return a redis-py connection class that can repeat its greeting after the server was reset."""
    from redis import Connection, ResponseError

    class KeptConnection(Connection):
        """A TCP connection whose socket survives a reset."""

        # The packed commands that it sent before its first command; None if unknown.
        greeting: list[bytes] | None = None
        address = b""  # its local address, in the server's notation
        is_asleep = False  # the server was reset; it has kept the socket, but no session

        def connect(self) -> None:
            """Connect; a sleeping connection only prepares to repeat its greeting before its first command."""
            if self._sock is not None:
                if self.is_asleep:
                    self.is_asleep = False
                    if hasattr(self, "_reset_himport_state"):
                        self._reset_himport_state()
                    if self.greeting:
                        self.send_packed_command = self._greet_and_send
                return
            self.send_packed_command = self._note  # type: ignore[method-assign]
            try:
                super().connect()  # type: ignore[no-untyped-call]
            finally:
                self._be_plain()

        def disconnect(self, *args: Any, **options: Any) -> None:
            """Disconnect as any connection does."""
            self._be_plain()
            super().disconnect(*args, **options)  # type: ignore[no-untyped-call]

        def _be_plain(self) -> None:
            """Remove the overrides of sending and reading."""
            self.__dict__.pop("send_packed_command", None)
            self.__dict__.pop("read_response", None)

        def _connect(self) -> Any:
            self.greeting = [] if "send_packed_command" in self.__dict__ else None
            self.is_asleep = False
            sock = self._dial()
            self.address = b"%b:%d" % (self.host.encode(), sock.getsockname()[1])
            return sock

        def _dial(self) -> Any:
            return super()._connect()  # type: ignore[no-untyped-call]

        def _note(self, command: Any, check_health: bool = True) -> None:
            assert self.greeting is not None
            self.greeting.append(joined(command))
            super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

        def _greet_and_send(self, command: Any, check_health: bool = True) -> None:
            """Send the greeting and the first command together; a round trip more would cost as much as the command."""
            del self.send_packed_command, check_health
            assert self.greeting is not None
            self.read_response = self._read_behind_greeting  # type: ignore[method-assign]
            together = b"".join([*self.greeting, joined(command)])
            super().send_packed_command([together], check_health=False)  # type: ignore[no-untyped-call]

        def _read_behind_greeting(self, *args: Any, **options: Any) -> Any:
            del self.read_response
            try:
                self._read_greeting()
            except BaseException:
                self.disconnect()
                raise
            return super().read_response(*args, **options)

        def _read_greeting(self) -> None:
            assert self.greeting is not None
            for sent in self.greeting:
                try:
                    reply = super().read_response()
                except ResponseError:
                    if not may_be_refused(sent):
                        raise
                else:
                    if _HELLO in sent:
                        self.handshake_metadata = reply

        @property
        def in_reset(self) -> tuple[bytes, bytes]:
            """The arguments of ``DEBUG RESET KEEP`` for this connection."""
            assert self.greeting is not None
            return self.address, b"%d" % sum(map(len, self.greeting))

        @property
        def may_sleep(self) -> bool:
            """Whether it can be kept: everything that a new connection would do is known."""
            return (
                self._sock is not None
                and self.greeting is not None
                and "read_response" not in self.__dict__
                and self.pid == os.getpid()
                and not (self.redis_connect_func or self.credential_provider or self.health_check_interval)
            )

    return KeptConnection


@contextlib.contextmanager
def taken(pools: Iterable[redis.ConnectionPool]) -> Iterator[list[bytes]]:
    """Keep idle connections open while their server is reset, which happens in the ``with`` block.

    They leave their pools, and return asleep: each repeats its greeting before its next command.

    Yields:
        The arguments of ``DEBUG RESET KEEP``: for each connection its address and the length of its greeting in bytes.
    """
    found = []
    for pool in pools:
        with pool._lock:  # noqa: SLF001 - redis-py has no other way
            idle = pool._available_connections  # noqa: SLF001
            sleeping = [each for each in idle if getattr(each, "may_sleep", False)]
            idle[:] = [each for each in idle if each not in sleeping]
        for connection in sleeping:
            connection.is_asleep = True
        found.append((pool, sleeping))
    try:
        yield [word for _, sleeping in found for each in sleeping for word in each.in_reset]
    finally:
        for pool, sleeping in found:
            with pool._lock:  # noqa: SLF001
                pool._available_connections[:0] = sleeping  # noqa: SLF001


def may_be_refused(sent: bytes) -> bool:
    """Return True if redis-py ignores an error reply to this packed command of its greeting."""
    return any(each in sent for each in _OPTIONAL)


def joined(command: Any) -> bytes:
    """Join the parts of a packed redis-py command."""
    if isinstance(command, str):
        command = command.encode()
    return command if isinstance(command, bytes) else b"".join(command)


class KeptClient:
    """A redis-py client that serves one test after another, as long as no test changes it."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self._pool = client.connection_pool
        self._insides = _insides_of(client)
        self._connection: Any = None  # the state of a new connection
        self._checked: tuple[Any, list[tuple[Any, Any]]] = (None, [])  # the last one equal to it

    def is_as_new(self) -> bool:
        """Return True if the client is as it was created; one idle connection is allowed if it can survive a reset."""
        client, pool = self.client, self._pool
        if client.connection_pool is not pool or not _are_the_same(self._insides):
            return False
        idle = pool._available_connections  # noqa: SLF001
        if pool._in_use_connections or not len(idle) == pool._created_connections <= 1:  # noqa: SLF001
            return False
        if not idle:
            return True
        connection, (checked, insides) = idle[0], self._checked
        if not connection.may_sleep:
            return False
        if connection is checked and _are_the_same(insides):
            return True
        if self._connection is None:
            self._connection = _state_of(pool.connection_class(**pool.connection_kwargs))
        self._checked = connection, _insides_of(connection)
        return bool(_state_of(connection) == self._connection)


def _insides_of(thing: Any, seen: frozenset[int] = frozenset()) -> list[tuple[Any, Any]]:
    """Return a redis-py object and all its parts, each with a copy of its contents.

    Comparing these takes a fifth of the time of a comparison with a new object (20 instead of 90 us).

    Args:
        seen: the identities of the objects that hold it; with RESP3, the options of redis-py 7's pool hold the pool.
    """
    held = None if isinstance(thing, _ATOMS) or id(thing) in seen else _held_by(thing)
    if held is None:
        return []
    values = held.values() if isinstance(held, dict) else held
    seen |= {id(thing)}
    inside = [each for value in values for each in _insides_of(value, seen)]
    return inside if isinstance(thing, tuple) else [(thing, held), *inside]


def _are_the_same(insides: list[tuple[Any, Any]]) -> bool:
    for thing, held in insides:
        contents = thing if isinstance(thing, (dict, list, set)) else getattr(thing, "__dict__", None)
        if contents != held and _held_by(thing) != held:  # `_held_by` copies; most need no copy
            return False
    return True


def _held_by(thing: Any) -> Any:
    """Return a copy of an object's contents, without those that normal use changes; None if it is not redis-py's."""
    if isinstance(thing, dict):
        return dict(thing)
    if isinstance(thing, (list, tuple, set)):
        return copy.copy(thing)
    kind = type(thing)
    if not kind.__module__.startswith(("redis.", f"{__package__}.")):
        return None
    try:
        parts = vars(thing)
    except TypeError:  # it has slots
        parts = {name: getattr(thing, name, None) for name in getattr(kind, "__slots__", ())}
    return {name: value for name, value in parts.items() if name not in _MOVING}


def _state_of(thing: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Return the state of a redis-py object; equally created objects have equal states. ``seen``: as for ``_insides_of``."""
    held = None if isinstance(thing, _ATOMS) or id(thing) in seen else _held_by(thing)
    if held is None:
        return thing if isinstance(thing, _ATOMS) else type(thing)
    seen |= {id(thing)}
    if isinstance(held, dict):
        held = {name: _state_of(value, seen) for name, value in held.items()}
    else:
        held = [_state_of(each, seen) for each in held]
    return type(thing), held
