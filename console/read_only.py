"""The commands that a read-only console sends by itself: which these are, and the refusal of all others.

Lines that a user types are judged by the flags of their commands: ``Rule.changes`` in ``prompt``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# The commands that a read-only console may send; for containers each subcommand.
READING: Final = frozenset(
    """CLIENT|LIST CLUSTER|SLOTS COMMAND COMMAND|DOCS COMMAND|INFO COMMAND|LIST DBSIZE DEBUG|AOF-HISTORY DEBUG|CLOCK DEBUG|FAULT
    DEBUG|RECORD GETRANGE HLEN HSCAN INFO LLEN LRANGE MEMORY|USAGE PTTL SCAN SCARD SLOWLOG|GET SLOWLOG|LEN SSCAN STRLEN TIME TYPE
    XINFO|CONSUMERS XINFO|GROUPS XINFO|STREAM XLEN XPENDING XRANGE XREVRANGE ZCARD ZRANGE""".split()
)
_CHANGING: Final = {b"DEBUG|CLOCK": {b"NOW"}, b"DEBUG|FAULT": {b"LIST", b"HELP"}, b"DEBUG|RECORD": {b"READ"}}


class ReadOnlyError(Exception):
    """The command was not sent: it changes data, and the console is read-only."""


def refuse_writes(commands: Sequence[tuple[bytes, ...]]) -> None:
    """Allow only reading commands. Raises ReadOnlyError: there is another one."""
    for words in commands:
        first = words[0].upper()
        both = first + b"|" + words[1].upper() if len(words) > 1 else first
        third = words[2].upper() if len(words) > 2 else b""
        if first.decode("latin-1") not in READING and both.decode("latin-1") not in READING:
            raise ReadOnlyError(f"{first.decode('utf-8', 'replace')} is not sent: the console is read-only")
        if both in _CHANGING and third not in _CHANGING[both]:
            raise ReadOnlyError(f"{both.decode('latin-1')} is not sent: the console is read-only")
