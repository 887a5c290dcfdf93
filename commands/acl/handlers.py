"""ACL: list and change users, check their permissions, and show denials."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_arity, wrong_subcommand_arguments
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..runtime.denials import Reason
from ..runtime.users import RuleError, User, is_username, joined
from ..spec.command import CATEGORIES, handles
from ..spec.usage import help_of
from . import file as acl_file
from . import specs

if TYPE_CHECKING:
    from ..runtime.context import Server

_DEFAULT: Final = b"default"
_BITS: Final = 256
_MOST_BITS: Final = 4096
_ENTRIES_SHOWN: Final = 10
_NO_FILE: Final = (
    b"ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the "
    b"ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) "
    b"in order to store users in the Redis configuration."
)


@handles(specs.ACL_CAT)
def acl_cat(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names of all categories, or of all commands in a given category."""
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
            for name, entry in client.server.dispatcher.commands.items()
            if category in entry.categories
        ]
    )


@handles(specs.ACL_DELUSER)
def acl_deluser(client: Client, args: list[bytes]) -> bytes:
    """Delete users and close their clients; reply with the number of deleted users."""
    if _DEFAULT in args[2:]:
        raise ReplyError(b"ERR The 'default' user cannot be removed")
    users = client.server.users
    gone = [user for name in args[2:] if (user := users.by_name.pop(name, None)) is not None]
    for other in list(client.server.clients.values()):
        if other.user in gone:
            other.close(after_reply=other is client)
    _changed(client.server, ())
    return replies.integer(len(gone))


@handles(specs.ACL_DRYRUN)
def acl_dryrun(client: Client, args: list[bytes]) -> bytes:
    """Check whether a user may run a command, without running it: reply OK, or a bulk string with the reason."""
    user = client.server.users.get(args[2])
    if user is None:
        raise ReplyError(b"ERR User '%b' not found" % shown(args[2]))
    words = args[3:]
    table = client.server.dispatcher
    unknown = ReplyError(b"ERR Command '%b' not found" % shown(words[0]))
    if table.own_name(words[0]) is None:
        raise unknown
    try:
        found = table.find(words).command
    except ReplyError as error:
        if len(words) == 1:
            raise
        raise unknown from error  # a container with an unknown subcommand
    if not found.accepts(len(words)):
        raise wrong_arity(found.name)
    denial = user.check(found, words)
    if denial is None:
        return replies.OK
    who = b"User " + user.name if client.server.compat.details_acl_denials else b"This user"
    what = (
        b"run the '%b' command"
        if denial.reason is Reason.COMMAND
        else b"access the '%%b' %b" % denial.reason.word
    )
    return replies.bulk(b"%b has no permissions to %b" % (who, what % denial.subject))


@handles(specs.ACL_GENPASS)
def acl_genpass(_client: Client, args: list[bytes]) -> bytes:
    """Reply with a random password: hexadecimal digits for a number of bits, rounded up to a multiple of 4."""
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    bits = parse_integer(args[2]) if len(args) == 3 else _BITS
    if not 0 < bits <= _MOST_BITS:
        raise ReplyError(
            b"ERR ACL GENPASS argument must be the number of bits for the output password, "
            b"a positive number up to %d" % _MOST_BITS
        )
    digits = (bits + 3) // 4
    return replies.bulk(os.urandom((digits + 1) // 2).hex()[:digits].encode())


@handles(specs.ACL_GETUSER)
def acl_getuser(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map of flags, passwords (SHA-256 in hex), commands, keys, channels, selectors; or null."""
    resp = client.resp
    user = client.server.users.get(args[2])
    if user is None:
        return replies.null(resp)
    permissions = [
        [
            (b"commands", replies.bulk(selector.command_rules)),
            (b"keys", replies.bulk(selector.key_rules)),
            (b"channels", replies.bulk(selector.channel_rules)),
        ]
        for selector in user.selectors
    ]
    return replies.map_of(
        [
            (
                b"flags",
                replies.set_of([replies.bulk(flag) for flag in user.flags(client.server.compat)], resp),
            ),
            (b"passwords", replies.bulk_array(user.passwords)),
            *permissions[0],
            (b"selectors", replies.array([replies.map_of(facts, resp) for facts in permissions[1:]])),
        ],
        resp,
    )


@handles(specs.ACL_LIST)
def acl_list(client: Client, _args: list[bytes]) -> bytes:
    """Reply with an array of ``user name rules …``, one text for each user."""
    return replies.bulk_array(acl_file.lines(client.server.users, client.server.compat))


@handles(specs.ACL_LOAD)
def acl_load(client: Client, _args: list[bytes]) -> bytes:
    """Replace the users with those of the ACL file and reply OK; on any error nothing changes."""
    server = client.server
    if not server.config.aclfile:
        raise ReplyError(_NO_FILE)
    try:
        load_users(server)
    except acl_file.AclFileError as error:
        raise ReplyError(b"ERR " + error.text) from error
    return replies.OK


def load_users(server: Server) -> None:
    """Replace the users with those of the ACL file; close the clients of removed users.

    Raises AclFileError: the file has errors; nothing was changed.
    """
    users = server.users
    found = acl_file.read(server.config.aclfile, folder=server.config.dir, all_channels=_all_channels(server))
    before = users.by_name
    users.by_name = {b"default": users.default}
    for name, user in found.items():
        kept = users.by_name[name] = before.get(name, user)
        kept.become(user)
    for client in list(server.clients.values()):
        if users.get(client.user.name) is not client.user:
            client.close()
    _changed(server, server.users)


def start_users(server: Server) -> bool:
    """At the start, create the users that redis.conf declares, or load the ACL file.

    Return False if the server cannot start with them; the log says why.
    """
    config = server.config
    if config.aclfile and config.users:
        server.log.warning(
            "Configuring Rillet with users defined in redis.conf and at the same setting an ACL file path is "
            "invalid. This setup is very likely to lead to configuration errors and security holes, please "
            "define either an ACL file or declare users directly in your redis.conf, but not both."
        )
        return False
    try:
        acl_file.configure(server.users, config.users, all_channels=_all_channels(server))
    except acl_file.AclFileError as error:
        server.log.warning(str(error))
        return False
    try:
        if config.aclfile:
            load_users(server)
    except acl_file.AclFileError as error:
        server.log.warning(f"Aborting Rillet startup because of ACL errors: {error}")
        return False
    return True


@handles(specs.ACL_LOG)
def acl_log(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map for each of the latest denials, by default ten; with RESET forget all and reply OK."""
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    log = client.server.acl_log
    count = _ENTRIES_SHOWN
    if len(args) == 3:
        if args[2].upper() == b"RESET":
            log.entries.clear()
            return replies.OK
        count = max(parse_integer(args[2]), 0)
    now = client.server.clock.now
    knows = client.server.compat.details_acl_denials
    return replies.array([entry.encode(now, client.resp, numbered=knows) for entry in log.entries[:count]])


@handles(specs.ACL_SAVE)
def acl_save(client: Client, _args: list[bytes]) -> bytes:
    """Write the users to the ACL file; reply OK when it is on disk."""
    server = client.server
    if not server.config.aclfile:
        raise ReplyError(_NO_FILE)
    try:
        acl_file.write(server.config.aclfile, server.users, folder=server.config.dir)
    except OSError as error:
        server.log.warning(f"Writing the ACL file failed: {error}")
        raise ReplyError(
            b"ERR There was an error trying to save the ACLs. Please check the server logs for more information"
        ) from error
    return replies.OK


@handles(specs.ACL_SETUSER)
def acl_setuser(client: Client, args: list[bytes]) -> bytes:
    """Create or change a user by rules and reply OK; apply none of them if one is invalid."""
    server, name = client.server, args[2]
    if not is_username(name):
        raise ReplyError(b"ERR Usernames can't contain spaces or null characters")
    all_channels = _all_channels(server)
    users = server.users
    user = users.get(name)
    trial = User(name, all_channels=all_channels) if user is None else user.copy()
    try:
        rules = joined(args[3:])
    except RuleError as error:
        raise ReplyError(b"ERR " + error.text) from error
    for rule in rules:
        try:
            trial.apply(rule, all_channels=all_channels)
        except RuleError as error:
            text = b"ERR Error in ACL SETUSER modifier '%b': %b" % (shown(rule), error.text)
            raise ReplyError(text) from error
    if user is None:
        users.by_name[name] = trial
        lost = []
    else:
        if any(each.user is user for each in server.tracking.clients):
            server.tracking.send_broadcasts()  # of the keys that the user could read until now
        lost = [user] if user.has_channels else []  # as in Redis: a user without channels lost none
        user.become(trial)
    _changed(server, lost)
    return replies.OK


def _all_channels(server: Server) -> bool:
    return server.config.acl_pubsub_default == "allchannels"


def _changed(server: Server, listeners: Iterable[User]) -> None:
    """Apply changed permissions to open connections, and record the change for CONFIG REWRITE.

    ``listeners``: the users who may have lost channels; their clients that listen to such a channel are closed.
    """
    listening = set(listeners)
    if not server.config.aclfile:
        declared = acl_file.declaration(server.users, server.config.requirepass)
        server.config.users = [line.split()[1:] for line in declared]
    for client in list(server.clients.values()):
        client.update_state()
        if client.is_subscriber and client.user in listening and not client.user.is_unlimited:
            channels = client.channels | client.shard_channels
            if not client.user.may_listen(channels, client.patterns):
                client.close()


@handles(specs.ACL_USERS)
def acl_users(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the names of all users, in order."""
    return replies.bulk_array([user.name for user in client.server.users])


@handles(specs.ACL_WHOAMI)
def acl_whoami(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the name of the client's user."""
    return replies.bulk(client.user.name)


handles(specs.ACL_HELP, container="acl")(help_of)
