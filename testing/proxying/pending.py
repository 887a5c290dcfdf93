"""What a request of a client is owed: a reply, several, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .session import LEARNED

if TYPE_CHECKING:
    from ...server.debugging.fault import Fault, Sent
    from ...server.debugging.fault_set import Look
    from ...server.debugging.recorder import Recorded, Recording

_NO_REPLIES: Final = {
    "psync": (),
    "sync": (),
    "script|debug": (b"YES", b"SYNC"),
}  # follow these, with these words


@dataclass(slots=True, eq=False)
class Pending:
    """A request whose reply is to come.

    Attributes:
        sent: of a command that may wait: the faults look at its reply.
        own: the proxy's own reply, which the server does not send.
        instead: replaces the server's reply.
        closes: the end of the connection stands in place of a reply.
        ends_matching: what follows is no RESP.
        confirmations: how many the (un)subscription still lacks; -1 before the first.
        value: those that have come.
        is_unsure: a reply may fail to come. In spite of CLIENT REPLY confirmations of a subscription come, its errors do
            not; and Redis 8.10.2 does not answer a wrong password behind other commands.
        transaction: begins with it, unless MULTI is refused.
        later: those of its commands that change the session, each with its place.
    """

    name: str
    argv: list[bytes]
    look: Look | None = None
    fault: Fault | None = None
    sent: Sent | None = None
    recorded: tuple[Recorded, list[Recording]] | None = None
    own: bytes | None = None
    instead: bytes | None = None
    closes: bool = False
    holds: bool = False
    ends_matching: bool = False
    confirmations: int = -1
    value: bytes = b""
    is_unsure: bool = False
    transaction: list[Sent] | None = None
    later: list[tuple[int, str, list[bytes]]] | None = None


def ends_matching(name: str, argv: list[bytes]) -> bool:
    """Whether what follows a command is no replies."""
    words = _NO_REPLIES.get(name)
    return (words is not None and (not words or argv[-1].upper() in words)) or is_silent(name, argv)


def is_silent(name: str, argv: list[bytes]) -> bool:
    """Whether a command has no reply unless it is refused, which depends on users and their rights."""
    return (
        name == "replconf"
        and len(argv) % 2 == 1
        and any(word.upper() in {b"ACK", b"GETACK"} for word in argv[1::2])
    )


def changes_replies(later: tuple[int, str, list[bytes]]) -> bool:
    """Whether a command of a transaction gives more or fewer replies than one."""
    return later[1] not in LEARNED
