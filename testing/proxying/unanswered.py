"""Requests of a proxied client that the server has not answered yet: each gets one value, several, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...server.debugging.fault import Fault, Sent
from ...server.debugging.fault_set import Decision
from ...server.debugging.recorder import Recorded, Recording
from .session import LEARNED

# No replies follow these commands; if there are words, only with one of them as the last argument.
_NO_REPLIES: Final = {"psync": (), "sync": (), "script|debug": (b"YES", b"SYNC")}


@dataclass(slots=True, eq=False)
class Unanswered:
    """A request that the server has not answered yet."""

    name: str
    argv: list[bytes]
    decision: Decision | None = None
    fault: Fault | None = None
    sent: Sent | None = None  # set for a command that may block, because faults look at its reply
    recorded: tuple[Recorded, list[Recording]] | None = None
    own: bytes | None = None  # the proxy's own reply; the server sends none
    instead: bytes | None = None  # replaces the server's reply
    closes: bool = False  # the connection is closed instead of a reply
    holds: bool = False
    # No more replies can be matched to requests: the bytes that follow are not RESP, or not replies.
    ends_matching: bool = False
    confirmations: int = -1  # how many confirmations the (un)subscription still lacks; -1 before the first
    value: bytes = b""  # the confirmations that have arrived
    # The reply may not come. With CLIENT REPLY OFF or SKIP, confirmations of subscriptions come, but their errors do
    # not; and Redis 8.10.2 does not answer a wrong password behind other commands.
    is_unsure: bool = False
    transaction: list[Sent] | None = None  # the transaction that it begins, unless MULTI is refused
    # For EXEC, the commands of the transaction that change the session: position, name and words.
    later: list[tuple[int, str, list[bytes]]] | None = None


def ends_matching(name: str, argv: list[bytes]) -> bool:
    """Return True if no more replies can be matched to requests after this command, e.g. PSYNC."""
    words = _NO_REPLIES.get(name)
    return (words is not None and (not words or argv[-1].upper() in words)) or is_silent(name, argv)


def is_silent(name: str, argv: list[bytes]) -> bool:
    """Return True for REPLCONF ACK and GETACK: the server replies only if the user has no right to them."""
    return (
        name == "replconf"
        and len(argv) % 2 == 1
        and any(word.upper() in {b"ACK", b"GETACK"} for word in argv[1::2])
    )


def changes_replies(later: tuple[int, str, list[bytes]]) -> bool:
    """Return True if a command inside a transaction may have more or fewer than one reply, as (un)subscriptions do."""
    return later[1] not in LEARNED
