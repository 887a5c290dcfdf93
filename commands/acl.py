"""ACL for the one user there is: ``default``, who may do everything, with requirepass as the password."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from ..protocol import replies
from ..protocol.errors import ReplyError, shown, wrong_arity, wrong_subcommand_arguments
from .arguments import parse_integer
from .compat import known_commands
from .syntax import server as syntax
from .table import CATEGORIES, command, container
from .usage import help_lines

if TYPE_CHECKING:
    from .client import Client

_ADMIN: Final = "admin noscript loading stale"
_ANYONE: Final = "noscript loading stale"
_ON_ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")
_DEFAULT: Final = b"default"
_BITS: Final = 256
_MOST_BITS: Final = 4096
_NO_FILE: Final = (
    b"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the "
    b"ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) "
    b"in order to store users in the Redis configuration."
)

container("ACL", since="6.0.0", group="server", summary="A container for Access List Control commands.")


def _password_hash(client: Client) -> bytes | None:
    """SHA-256 of requirepass in hex, None if there is no password."""
    password = client.server.config.requirepass
    return hashlib.sha256(password).hexdigest().encode() if password else None


# ACL CAT [category]
@command(
    "ACL|CAT",
    arity=-2,
    flags=_ANYONE,
    since="6.0.0",
    group="server",
    complexity="O(1) since the categories and commands are a fixed set.",
    summary="Returns the categories, or the commands of one.",
    arguments=syntax.ACL_CAT,
)
def acl_cat(client: Client, args: list[bytes]) -> bytes:
    """Names; a command that only holds subcommands belongs to no category."""
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 2:
        return replies.bulk_array([name.encode() for name in CATEGORIES])
    category = args[2].lower().decode("latin-1")
    if category not in CATEGORIES:
        raise ReplyError(b"ERR Unknown category '%b'" % shown(args[2]))
    return replies.bulk_array(
        [
            name.encode()
            for name, entry in known_commands(client.server.compat).items()
            if entry.handler is not None and category in entry.categories
        ]
    )


# ACL DELUSER username [username ...]
@command(
    "ACL|DELUSER",
    arity=-3,
    flags=_ADMIN,
    tips=_ON_ALL_NODES,
    since="6.0.0",
    group="server",
    complexity="O(1) amortized time considering the typical user.",
    summary="Deletes users; there is only the default one, which stays.",
    arguments=syntax.ACL_DELUSER,
)
def acl_deluser(client: Client, args: list[bytes]) -> bytes:
    """How many were deleted: 0."""
    del client
    if _DEFAULT in args[2:]:
        raise ReplyError(b"ERR The 'default' user cannot be removed")
    return replies.ZERO


# ACL DRYRUN username command [arg [arg ...]]
@command(
    "ACL|DRYRUN",
    arity=-4,
    flags=_ADMIN,
    since="7.0.0",
    group="server",
    complexity="O(1).",
    summary="Tells whether a user may run a command, without running it.",
    arguments=syntax.ACL_DRYRUN,
)
def acl_dryrun(client: Client, args: list[bytes]) -> bytes:
    """OK for every command that exists."""
    if args[2] != _DEFAULT:
        raise ReplyError(b"ERR User '%b' not found" % shown(args[2]))
    words = args[3:]
    name = words[0].lower().decode("latin-1")
    if name not in known_commands(client.server.compat) or "|" in name:
        raise ReplyError(b"ERR Command '%b' not found" % shown(words[0]))
    found = client.server.dispatcher.find(words).command
    if not found.accepts(len(words)):
        raise wrong_arity(found.name)
    return replies.OK


# ACL GENPASS [bits]
@command(
    "ACL|GENPASS",
    arity=-2,
    flags=_ANYONE,
    since="6.0.0",
    group="server",
    complexity="O(1)",
    summary="Returns a random password.",
    arguments=syntax.ACL_GENPASS,
)
def acl_genpass(client: Client, args: list[bytes]) -> bytes:
    """Hexadecimal digits for so many bits, rounded up to the next multiple of 4."""
    del client
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    bits = parse_integer(args[2]) if len(args) == 3 else _BITS
    if not 0 < bits <= _MOST_BITS:
        raise ReplyError(
            b"ERR ACL GENPASS argument must be the number of bits for the output password, "
            b"a positive number up to %d" % _MOST_BITS
        )
    digits = (bits + 3) // 4
    return replies.bulk(secrets.token_hex((digits + 1) // 2)[:digits].encode())


# ACL GETUSER username
@command(
    "ACL|GETUSER",
    arity=3,
    flags=_ADMIN,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of password, command and pattern rules that the user has.",
    summary="Returns the rules of a user.",
    history=syntax.ACL_GETUSER_HISTORY,
    arguments=syntax.ACL_GETUSER,
)
def acl_getuser(client: Client, args: list[bytes]) -> bytes:
    """A map of flags, passwords (SHA-256 in hex), commands, keys, channels, selectors; null for nobody."""
    resp = client.resp
    if args[2] != _DEFAULT:
        return replies.null(resp)
    password = _password_hash(client)
    flags = [b"on", b"sanitize-payload"] if password else [b"on", b"nopass", b"sanitize-payload"]
    return replies.map_of(
        [
            (b"flags", replies.set_of([replies.bulk(flag) for flag in flags], resp)),
            (b"passwords", replies.bulk_array([password] if password else [])),
            (b"commands", replies.bulk(b"+@all")),
            (b"keys", replies.bulk(b"~*")),
            (b"channels", replies.bulk(b"&*")),
            (b"selectors", replies.EMPTY_ARRAY),
        ],
        resp,
    )


# ACL LIST
@command(
    "ACL|LIST",
    arity=2,
    flags=_ADMIN,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of configured users.",
    summary="Returns the users as lines of an ACL file.",
    arguments=syntax.ACL_LIST,
)
def acl_list(client: Client, args: list[bytes]) -> bytes:
    """One line."""
    del args
    password = _password_hash(client)
    secret = b"sanitize-payload #%b" % password if password else b"nopass sanitize-payload"
    return replies.bulk_array([b"user default on %b ~* &* +@all" % secret])


# ACL LOAD
@command(
    "ACL|LOAD",
    arity=2,
    flags=_ADMIN,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of configured users.",
    summary="Reads the users from the ACL file. There is none.",
    arguments=syntax.ACL_LOAD,
)
def acl_load(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_NO_FILE)


# ACL LOG [count | RESET]
@command(
    "ACL|LOG",
    arity=-2,
    flags=_ADMIN,
    since="6.0.0",
    group="server",
    complexity="O(N) with N being the number of entries shown.",
    summary="Returns what was denied to users: nothing is remembered.",
    history=syntax.ACL_LOG_HISTORY,
    arguments=syntax.ACL_LOG,
)
def acl_log(client: Client, args: list[bytes]) -> bytes:
    """An empty array; OK for RESET."""
    del client
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 3:
        if args[2].upper() == b"RESET":
            return replies.OK
        parse_integer(args[2])
    return replies.EMPTY_ARRAY


# ACL SAVE
@command(
    "ACL|SAVE",
    arity=2,
    flags=_ADMIN,
    tips=_ON_ALL_NODES,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of configured users.",
    summary="Writes the users into the ACL file. There is none.",
    arguments=syntax.ACL_SAVE,
)
def acl_save(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_NO_FILE)


# ACL SETUSER username [rule [rule ...]]
@command(
    "ACL|SETUSER",
    arity=-3,
    flags=_ADMIN,
    tips=_ON_ALL_NODES,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of rules provided.",
    summary="Creates or changes a user. Not in this version.",
    history=syntax.ACL_SETUSER_HISTORY,
    arguments=syntax.ACL_SETUSER,
)
def acl_setuser(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(
        b"ERR ACL SETUSER is not supported by this version of Rillet: the only user is default, "
        b"with requirepass as the password"
    )


# ACL USERS
@command(
    "ACL|USERS",
    arity=2,
    flags=_ADMIN,
    since="6.0.0",
    group="server",
    complexity="O(N). Where N is the number of configured users.",
    summary="Returns the names of the users.",
    arguments=syntax.ACL_USERS,
)
def acl_users(client: Client, args: list[bytes]) -> bytes:
    """One name."""
    del client, args
    return replies.bulk_array([_DEFAULT])


# ACL WHOAMI
@command(
    "ACL|WHOAMI",
    arity=2,
    flags=_ANYONE,
    since="6.0.0",
    group="server",
    complexity="O(1)",
    summary="Returns the user of this connection.",
    arguments=syntax.ACL_WHOAMI,
)
def acl_whoami(client: Client, args: list[bytes]) -> bytes:
    """The name."""
    del args
    return replies.bulk(client.user)


# ACL HELP
@command(
    "ACL|HELP",
    arity=2,
    flags="loading stale",
    since="6.0.0",
    group="server",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.ACL_HELP,
)
def acl_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("acl"))
