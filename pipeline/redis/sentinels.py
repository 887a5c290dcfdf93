"""A connection to the master, or to a replica, that sentinels name; it asks them each time it opens."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .addresses import Place
from .connection import Connection, RedisError, Reply, ServerError, packed, read_facts

if TYPE_CHECKING:
    from .options import Endpoint

_LONGEST_ANSWER_MS: Final = 3000
_NOT_NOW: Final = frozenset({"s_down", "o_down", "disconnected", "master_down"})


class SentinelConnection(Connection):
    """A connection that asks sentinels for its server, and checks the role of the server that they name.

    Args:
        endpoint: an endpoint of kind ``sentinel``.
        replica: read from a replica, if one follows the master.
    """

    _may_move = True

    def __init__(self, endpoint: Endpoint, *, replica: bool = False) -> None:
        super().__init__(endpoint)
        self._replica = replica

    def _place(self) -> Place:
        """Ask one sentinel after the other for the server. Raises ConnectionError: no sentinel knows a server now."""
        said: list[str] = []
        to = self.endpoint
        for place in to.places:
            sentinel = replace(
                to.at(place), db=0, username=to.sentinel_username, password=to.sentinel_password,
                password_env=None, password_file=None, credentials_provider=None,
                timeout_ms=min(to.timeout_ms, _LONGEST_ANSWER_MS),
            )  # fmt: skip
            try:
                with Connection(sentinel) as connection:
                    if self._replica and (found := self._replica_of(connection)) is not None:
                        return found
                    reply = connection.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", to.service or "")
            except RedisError as error:
                said.append(str(error))
                continue
            if reply is not None:
                return reply[0].decode(), int(reply[1])
            said.append(f"{sentinel} knows no master {to.service!r}")
        raise ConnectionError("; ".join(said))

    def _replica_of(self, connection: Connection) -> Place | None:
        for row in connection.call("SENTINEL", "REPLICAS", self.endpoint.service or ""):
            facts = read_facts(row)
            flags = set(facts[b"flags"].decode().split(","))
            if not flags & _NOT_NOW and facts.get(b"master-link-status") == b"ok":
                return facts[b"ip"].decode(), int(facts[b"port"])
        return None

    def _introduce(self, sock: socket.socket) -> None:
        super()._introduce(sock)
        if self._replica:
            return
        sock.sendall(packed([("ROLE",)]))
        (role,) = self._replies(sock, 1)
        if isinstance(role, ServerError):
            raise ServerError(f"{role} (at {self.endpoint})")
        if role[0] != b"master":
            raise ConnectionResetError(f"the sentinels name a {role[0].decode()} as the master, so far")

    def _is_elsewhere(self, reply: Reply) -> bool:
        return isinstance(reply, ServerError) and reply.code == "READONLY"
