"""Users as text: the ACL file, and the ``user`` lines of redis.conf."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ...storage.files import replace_file
from ..runtime.users import RuleError, User, Users, is_username, joined
from ..spec.versions import Compat

_UNCHANGED: Final = (
    b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
)


class AclFileError(Exception):
    """The ACL file, or a ``user`` line of redis.conf, cannot be used.

    Nothing was changed; ``text`` is the message of Redis.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__(os.fsdecode(text))
        self.text = text


def read(path: str, *, folder: str = "", all_channels: bool) -> dict[bytes, User]:
    """Read an ACL file; return its users by name. ``default`` is added if the file does not have it.

    Raises AclFileError with all errors of the file.

    Args:
        path: the file; a relative path lies in ``folder``.
        folder: see ``path``.
        all_channels: whether new users may use all channels (acl-pubsub-default).
    """
    try:
        content = Path(folder, path).read_bytes()
    except OSError as error:
        why = os.fsencode(error.strerror or str(error))
        raise AclFileError(b"Error loading ACLs, opening file '%b': %b" % (os.fsencode(path), why)) from None
    found: dict[bytes, User] = {}
    errors = []
    for number, raw in enumerate(content.split(b"\n"), 1):
        line = raw.strip(b" \t\r\n")
        if not line or line.startswith(b"#"):
            continue
        place = b"%b:%d" % (os.fsencode(path), number)
        words = line.split()
        if words[0] != b"user" or len(words) < 2:
            errors.append(place + b" should start with user keyword followed by the username. ")
        elif words[1] in found:
            errors.append(b"WARNING: Duplicate user '%b' found on line %d. " % (words[1], number))
        else:
            user = found[words[1]] = User(words[1], all_channels=all_channels)
            errors.extend(_apply(user, words[2:], place, all_channels))
    if errors:
        raise AclFileError(b"".join(errors) + _UNCHANGED)
    found.setdefault(b"default", User.superuser())
    return found


def _apply(user: User, words: list[bytes], place: bytes, all_channels: bool) -> list[bytes]:
    """Apply the rules of a line to a user; return the errors found."""
    try:
        rules = joined(words)
    except RuleError:
        return [place + b": Unmatched parenthesis in selector definition."]
    for rule in rules:
        try:
            user.apply(rule, all_channels=all_channels)
        except RuleError as error:
            if rule[:1] in {b"+", b"-"}:
                return [b"%b: Error in applying operation '%b': %b. " % (place, rule, error.text)]
            return [b"%b: %b. " % (place, error.text)]
    return []


def configure(users: Users, declared: list[list[bytes]], *, all_channels: bool) -> None:
    """Create the users of the ``user`` lines in redis.conf; each item holds the words after ``user``.

    Raises AclFileError with the first error.
    """
    for name, *words in declared:
        if not name or not is_username(name):
            raise AclFileError(
                b"Spaces not allowed in ACL usernames. Critical error while loading ACLs. Exiting."
            )
        user = users.get(name)
        if user is None:
            user = users.by_name[name] = User(name, all_channels=all_channels)
        else:
            user.become(User(name, all_channels=all_channels))
        rule = b""
        try:
            for rule in joined(words):
                user.apply(rule, all_channels=all_channels)
        except RuleError as error:
            raise AclFileError(
                b"Error loading ACL rule '%b' for the user named '%b': %b. Critical error while loading ACLs. Exiting."
                % (rule, name, error.text)
            ) from None


def declaration(users: Users, requirepass: bytes) -> list[bytes]:
    """Return the ``user`` lines for CONFIG REWRITE; none if there is only ``default`` and requirepass describes it."""
    plain = User.superuser()
    if requirepass:
        plain.apply(b">" + requirepass)
    if len(users.by_name) == 1 and users.default.describe() == plain.describe():
        return []
    return lines(users)


def lines(users: Users, compat: Compat | None = None) -> list[bytes]:
    """Return a line ``user name rules …`` for each user, as ACL LIST of a Redis version shows it."""
    return [b"user %b %b" % (user.name, user.describe(compat)) for user in users]


def write(path: str, users: Users, *, folder: str = "") -> None:
    """Write the users to an ACL file, atomically: a complete file always exists. Raises OSError: the old file stays."""
    content = b"".join(line + b"\n" for line in lines(users))
    replace_file(Path(folder, path).resolve(), content, 0o600)  # it holds passwords, though hashed
