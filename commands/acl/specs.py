"""The ACL commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import COMMAND_LINE, integer, many, oneof, optional, string, token

family = Family(__package__, "server")

_USERS_COST = "O(N); N: users"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

ACL = family.container("ACL", since="6.0.0",
    summary="Groups the commands on users and their permissions.")

ACL_CAT = family.command("ACL|CAT", arity=-2, flags="noscript loading stale", since="6.0.0",
    summary="Returns the categories, or the commands of one.",
    arguments=(optional(string("category")),))

ACL_DELUSER = family.command("ACL|DELUSER", arity=-3, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="6.0.0",
    summary="Deletes users and closes their connections.",
    complexity="O(N); N: users deleted",
    arguments=(many(string("username")),))

ACL_DRYRUN = family.command("ACL|DRYRUN", arity=-4, flags="admin noscript loading stale", since="7.0.0",
    summary="Checks whether a user may run a command, without running it.",
    arguments=(string("username"), *COMMAND_LINE))

ACL_GENPASS = family.command("ACL|GENPASS", arity=-2, flags="noscript loading stale", since="6.0.0",
    summary="Returns a random password.",
    arguments=(optional(integer("bits")),))

ACL_GETUSER = family.command("ACL|GETUSER", arity=3, flags="admin noscript loading stale", since="6.0.0",
    summary="Returns the rules of a user.",
    complexity="O(N); N: rules of the user",
    arguments=(string("username"),),
    history={
        "6.2.0": "Added channel patterns.",
        "7.0.0": "Added selectors; patterns told as rules instead of a list.",
    })

ACL_LIST = family.command("ACL|LIST", arity=2, flags="admin noscript loading stale", since="6.0.0",
    summary="Returns the users as lines of an ACL file.",
    complexity=_USERS_COST)

ACL_LOAD = family.command("ACL|LOAD", arity=2, flags="admin noscript loading stale", since="6.0.0",
    summary="Reads the users from the ACL file.",
    complexity=_USERS_COST)

ACL_LOG = family.command("ACL|LOG", arity=-2, flags="admin noscript loading stale", since="6.0.0",
    summary="Returns the denials of the ACL, the latest first.",
    complexity="O(N); N: entries returned",
    arguments=(optional(oneof("operation", integer("count"), token("RESET"))),),
    history={"7.2.0": "Added the entry's ID and the times of its creation and last update."})

ACL_SAVE = family.command("ACL|SAVE", arity=2, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="6.0.0",
    summary="Writes the users into the ACL file.",
    complexity=_USERS_COST)

ACL_SETUSER = family.command("ACL|SETUSER", arity=-3, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="6.0.0",
    summary="Creates a user or changes one.",
    complexity="O(N); N: rules given",
    arguments=(string("username"), optional(many(string("rule")))),
    history={"6.2.0": "Added channel patterns.", "7.0.0": "Added selectors and permissions per key."})

ACL_USERS = family.command("ACL|USERS", arity=2, flags="admin noscript loading stale", since="6.0.0",
    summary="Returns the names of the users.",
    complexity=_USERS_COST)

ACL_WHOAMI = family.command("ACL|WHOAMI", arity=2, flags="noscript loading stale", since="6.0.0",
    summary="Returns the user of this connection.")

ACL_HELP = family.help("ACL", since="6.0.0")

# fmt: on
