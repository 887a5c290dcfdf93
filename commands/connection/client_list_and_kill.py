"""CLIENT LIST, INFO and KILL: the lines of clients, and the filters that select clients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError, shown
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.client_line import client_line
from ..runtime.users import User
from ..spec.command import handles
from . import specs

_TYPES: Final = {
    b"normal": "normal",
    b"master": "master",
    b"replica": "replica",
    b"slave": "replica",
    b"pubsub": "pubsub",
}
_NO_ID: Final = b"ERR client-id should be greater than 0"


def client_type(client: Client) -> str:
    """Return the class of a client for the filter TYPE: normal, master, replica or pubsub."""
    if client.trusted:
        return "master"
    if client.is_replica:
        return "replica"
    return "pubsub" if client.is_subscriber else "normal"


def _listing(client: Client, args: list[bytes], clients: Iterable[Client]) -> bytes:
    lines = [client_line(other, args if other is client else ()) + b"\n" for other in clients]
    return replies.verbatim(b"".join(lines), client.resp)


def _parse_type(word: bytes) -> str:
    name = _TYPES.get(word.lower())
    if name is None:
        raise ReplyError(b"ERR Unknown client type '%b'" % shown(word))
    return name


@handles(specs.CLIENT_LIST)
def client_list(client: Client, args: list[bytes]) -> bytes:
    """Reply with one line per client: all, those of a type, or some IDs (unknown IDs are left out)."""
    everybody = client.server.clients
    rest = Arguments(args, 2)
    if not rest:
        return _listing(client, args, everybody.values())
    option = rest.option()
    if option == b"TYPE" and rest.remaining == 1:
        wanted = _parse_type(rest.next())
        return _listing(client, args, [other for other in everybody.values() if client_type(other) == wanted])
    if option == b"ID" and rest:
        identifiers = [parse_integer(word, b"ERR Invalid client ID") for word in rest.rest()]
        return _listing(client, args, [everybody[number] for number in identifiers if number in everybody])
    raise ReplyError(SYNTAX)


@handles(specs.CLIENT_INFO)
def client_info(client: Client, args: list[bytes]) -> bytes:
    """Reply with the client's own line of CLIENT LIST."""
    return _listing(client, args, [client])


@dataclass(slots=True)
class _Filter:
    """The filters of CLIENT KILL; a client must match all that are given."""

    number: int | None = None
    kind: str | None = None
    address: bytes | None = None
    local_address: bytes | None = None
    user: User | None = None
    max_age: int | None = None  # seconds
    skip_me: bool = True

    def matches(self, other: Client, me: Client) -> bool:
        return (
            (self.number is None or other.id == self.number)
            and (self.kind is None or client_type(other) == self.kind)
            and (self.address is None or other.address == self.address)
            and (self.local_address is None or other.local_address == self.local_address)
            and (self.user is None or (other.authenticated and other.user is self.user and not other.replays))
            and (self.max_age is None or (me.server.clock.now - other.created) // 1000 >= self.max_age)
            and not (self.skip_me and other is me)
        )


def _parse_filter(client: Client, args: list[bytes]) -> _Filter:
    wanted = _Filter()
    rest = Arguments(args, 2)
    while rest:
        option = rest.option()
        word = rest.next()
        if option == b"ID":
            wanted.number = parse_integer(word, _NO_ID)
            if wanted.number < 1:
                raise ReplyError(_NO_ID)
        elif option == b"TYPE":
            wanted.kind = _parse_type(word)
        elif option == b"ADDR":
            wanted.address = word
        elif option == b"LADDR":
            wanted.local_address = word
        elif option == b"USER":
            wanted.user = client.server.users.get(word)
            if wanted.user is None:
                raise ReplyError(b"ERR No such user '%b'" % shown(word))
        elif option == b"SKIPME":
            answer = word.lower()
            if answer not in {b"yes", b"no"}:
                raise ReplyError(SYNTAX)
            wanted.skip_me = answer == b"yes"
        elif option == b"MAXAGE" and client.server.compat.knows("7.4"):
            wanted.max_age = parse_integer(word, b"ERR maxage is not an integer or out of range")
            if wanted.max_age < 1:
                raise ReplyError(b"ERR maxage should be greater than 0")
        else:
            raise ReplyError(SYNTAX)
    return wanted


@handles(specs.CLIENT_KILL)
def client_kill(client: Client, args: list[bytes]) -> bytes:
    """Close the client at an address and reply OK, or close all clients that match filters and reply with their number."""
    old_form = len(args) == 3
    wanted = _Filter(address=args[2], skip_me=False) if old_form else _parse_filter(client, args)
    victims = [other for other in client.server.clients.values() if wanted.matches(other, client)]
    if old_form and not victims:
        raise ReplyError(b"ERR No such client")
    for victim in victims:
        # A client that kills itself still gets its reply.
        victim.close(after_reply=victim is client)
    return replies.OK if old_form else replies.integer(len(victims))
