"""A proxy's knowledge of a client's session, learned from the server's replies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import hiredis

from ...server.debugging.fault import Sender

SUBSCRIPTIONS: Final = frozenset(
    "subscribe unsubscribe psubscribe punsubscribe ssubscribe sunsubscribe".split()
)
LEARNED: Final = frozenset("hello reset auth monitor select client|setname client|setinfo client|id".split())
"""The commands whose replies change the session."""

_CONFIRMATION: Final = re.compile(rb"[*>]3\r\n\$\d+\r\n([ps]?(?:un)?subscribe)\r\n").match
_MESSAGE: Final = re.compile(rb"\*[34]\r\n\$[78]\r\n[ps]?message\r\n").match
_MONITORED: Final = re.compile(rb"\+\d+\.\d{6} \[").match
_ID: Final = re.compile(rb"\r\n\$2\r\nid\r\n:(\d+)\r\n").search  # in the reply of HELLO


class Session:
    """The state of one client's session at the server: what faults can match, and its subscriptions."""

    def __init__(self, number: int, *, keeps_id: bool = False) -> None:
        # A number from the proxy, or the server's once the server has told it to the client (HELLO, CLIENT ID).
        self.id = number
        self._keeps_id = keeps_id
        self.library = b""
        self._reset()

    def _reset(self) -> None:
        self.name, self.user = b"", b"default"
        # ``resp``: the protocol version.
        # ``monitors``: whether the client has sent MONITOR.
        self.resp, self.database, self.monitors = 2, 0, False
        self._channels: dict[str, set[bytes | None]] = {"s": set(), "p": set(), "": set()}

    @property
    def sender(self) -> Sender:
        """The client's properties that a fault can match."""
        return Sender(self.id, self.name, self.user, self.library)

    @property
    def is_subscribed(self) -> bool:
        """Whether the client subscribes to any channel or pattern."""
        return any(self._channels.values())

    @property
    def gets_messages(self) -> bool:
        """Whether the server may send messages of subscriptions or MONITOR lines besides replies."""
        return self.monitors or self.is_subscribed

    def is_message(self, value: bytes) -> bool:
        """Return True if a value is a RESP2 message or a MONITOR line instead of a reply; its first bytes suffice."""
        if self.monitors and _MONITORED(value):
            return True
        return self.resp == 2 and any(self._channels.values()) and _MESSAGE(value) is not None

    @staticmethod
    def confirmed(value: bytes) -> str:
        """Return the (un)subscription command that a value confirms (for one channel), or "" for other values."""
        found = _CONFIRMATION(value)
        return "" if found is None else found[1].decode()

    def confirmations(self, name: str, argv: list[bytes]) -> int:
        """Return how many confirmations an (un)subscription gets: one per channel, or per subscription if it names none.

        Call it when the first confirmation arrives: the number depends on the subscriptions held at that moment.
        """
        return len(argv) - 1 or max(1, len(self._of(name)))

    def confirm(self, name: str, value: bytes) -> None:
        """Update the subscriptions from a confirmation: ``name`` is the command, ``value`` the bytes with the channel."""
        reader = hiredis.Reader()
        reader.feed(value)
        channel = reader.gets()[1]
        if "un" in name:
            self._of(name).discard(channel)
        else:
            self._of(name).add(channel)

    def will_be_subscribed(self, commands: Iterable[tuple[str, list[bytes]]]) -> bool:
        """Return True if the client will have a subscription after further (un)subscriptions, given as names and words."""
        channels = {kind: set(names) for kind, names in self._channels.items()}
        for name, argv in commands:
            kind = _kind(name)
            if "un" not in name:
                channels[kind].update(argv[1:])
            else:
                channels[kind].difference_update(argv[1:] or [*channels[kind]])
        return any(channels.values())

    def _of(self, name: str) -> set[bytes | None]:
        return self._channels[_kind(name)]

    def learn(self, name: str, argv: list[bytes], value: bytes) -> None:
        """Update the session from a command of ``LEARNED``: its name, its words, and the bytes of its reply."""
        if name == "hello" and value[:1] in b"*%":
            self._greet(argv)
            self.resp = 3 if value[:1] == b"%" else 2
            if (found := _ID(value)) is not None and not self._keeps_id:
                self.id = int(found[1])
        elif name == "client|id" and value[:1] == b":" and not self._keeps_id:
            self.id = int(value[1:-2])
        elif value in {b"+OK\r\n", b"+RESET\r\n"}:
            self._take(name, argv)

    def assume(self, name: str, argv: list[bytes]) -> None:
        """Update the session as if a command of ``LEARNED`` succeeded: its reply is suppressed and will not arrive."""
        if name == "hello":
            if argv[1:2] not in ([], [b"2"], [b"3"]):
                return
            self._greet(argv)
            self.resp = int(argv[1]) if argv[1:] else self.resp
        elif name != "select" or argv[1].isdigit():
            self._take(name, argv)

    def _greet(self, argv: list[bytes]) -> None:
        words = iter(argv[2:])
        for word in words:
            if word.upper() == b"AUTH":
                self.user = next(words, b"default")
                next(words, None)
            elif word.upper() == b"SETNAME":
                self.name = next(words, b"")

    def _take(self, name: str, argv: list[bytes]) -> None:
        if name == "reset":
            self._reset()
        elif name == "select":
            self.database = int(argv[1])
        elif name == "auth":
            self.user = argv[1] if len(argv) > 2 else b"default"
        elif name == "client|setname":
            self.name = argv[2]
        elif name == "client|setinfo" and argv[2].upper() == b"LIB-NAME":
            self.library = argv[3]
        elif name == "monitor":
            self.monitors = True


def _kind(name: str) -> str:
    return name.removesuffix("subscribe").removesuffix("un")
