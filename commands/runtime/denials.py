"""Denials of the ACL and their error replies."""

from __future__ import annotations

import enum
from typing import Final

from ...protocol.errors import shown
from ..spec.versions import Compat


class Reason(enum.IntEnum):
    """The part of a command that the ACL denies; a higher value means that more parts were allowed before."""

    COMMAND = 1
    KEY = 2
    CHANNEL = 3

    @property
    def word(self) -> bytes:
        """The denial's reason as ACL LOG shows it: ``command``, ``key`` or ``channel``."""
        return self.name.lower().encode()


class Denial:
    """A denied command: the reason, and ``subject``, the name of the command, the key or the channel."""

    __slots__ = ("index", "reason", "subject")

    def __init__(self, reason: Reason, subject: bytes, index: int = 0) -> None:
        self.reason = reason
        self.subject = subject
        self.index = index  # of the word in the command


_ANONYMOUS: Final = {
    Reason.COMMAND: b"this user has no permissions to run the '%b' command",
    Reason.KEY: b"this user has no permissions to access one of the keys used as arguments",
    Reason.CHANNEL: b"this user has no permissions to access one of the channels used as arguments",
}
_IN_SCRIPTS: Final = {
    Reason.COMMAND: b"run this command or subcommand",
    Reason.KEY: b"access at least one of the keys mentioned in the command arguments",
    Reason.CHANNEL: b"publish to the channel mentioned in the command",
}
_NO_LONGER: Final = {
    Reason.COMMAND: b"no permission to execute the command or subcommand",
    Reason.KEY: b"no permission to touch the specified keys",
    Reason.CHANNEL: b"no permission to access one of the channels used as arguments",
}


def refusal(denial: Denial, user: bytes, compat: Compat) -> bytes:
    """Return the text of the NOPERM error for a denied command, as a version of Redis words it."""
    if not compat.details_acl_denials:
        text = _ANONYMOUS[denial.reason]
        return b"NOPERM " + (text % denial.subject if denial.reason is Reason.COMMAND else text)
    if denial.reason is Reason.COMMAND:
        return b"NOPERM User %b has no permissions to run the '%b' command" % (shown(user), denial.subject)
    return b"NOPERM No permissions to access a " + denial.reason.word


def refusal_in_script(denial: Denial, user: bytes, compat: Compat) -> bytes:
    """Return the text of the error for a denied command of a script."""
    if compat.details_acl_denials:
        return b"ERR ACL failure in script: " + refusal(denial, user, compat).removeprefix(b"NOPERM ")
    return b"ERR The user executing the script can't " + _IN_SCRIPTS[denial.reason]


def refusal_in_exec(denial: Denial) -> bytes:
    """Return the text of the error for a queued command that is denied when EXEC runs it."""
    return (
        b"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This "
        b"command is no longer allowed for the following reason: " + _NO_LONGER[denial.reason]
    )
