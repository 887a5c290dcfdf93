"""Hide secrets in the commands that SLOWLOG and MONITOR show."""

from __future__ import annotations

from typing import Final

HIDDEN: Final = b"(redacted)"
_FIRST_OPTION_OF_MIGRATE: Final = 6
_SECRETS: Final = frozenset(
    (b"requirepass", b"masterauth", b"masteruser", b"tls-key-file-pass", b"tls-client-key-file-pass")
)


def redacted(argv: list[bytes], *, users: bool = True) -> list[bytes]:
    """Return a command with its passwords hidden (AUTH, HELLO AUTH, CONFIG SET of a secret, ACL SETUSER, MIGRATE).

    With ``users``, also hide the user names in ACL GETUSER and ACL DELUSER.
    """
    name = argv[0].upper()
    if name == b"AUTH":
        return _hidden_from(argv, 1)
    if name == b"HELLO":
        for index in range(2, len(argv) - 2):
            if argv[index].upper() == b"AUTH":
                return argv[: index + 1] + _hidden_from(argv[index + 1 : index + 3], 0) + argv[index + 3 :]
    elif name == b"CONFIG" and len(argv) > 3 and argv[1].upper() == b"SET":
        shown = list(argv)
        for index in range(2, len(argv) - 1, 2):
            if argv[index].lower() in _SECRETS:
                shown[index + 1] = HIDDEN
        return shown
    elif name == b"MIGRATE":
        return _hidden_in_migrate(argv)
    elif name == b"ACL" and len(argv) > 2:
        command = argv[1].upper()
        if command == b"SETUSER" or (users and command in {b"GETUSER", b"DELUSER"}):
            return _hidden_from(argv, 2)
    return argv


def _hidden_in_migrate(argv: list[bytes]) -> list[bytes]:
    shown = list(argv)
    at = _FIRST_OPTION_OF_MIGRATE
    while at < len(argv):
        word = argv[at].upper()
        secrets = {b"AUTH": 1, b"AUTH2": 2}.get(word, 0)
        if word == b"KEYS":
            break
        for index in range(at + 1, min(at + 1 + secrets, len(argv))):
            shown[index] = HIDDEN
        at += 1 + secrets
    return shown


def _hidden_from(argv: list[bytes], start: int) -> list[bytes]:
    return argv[:start] + [HIDDEN] * (len(argv) - start)
