"""The syntax of ACL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    COMMAND_LINE,
    NONE,
    integer,
    many,
    oneof,
    optional,
    string,
    token,
)

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

ACL: Tree = NONE


ACL_CAT: Tree = (optional(string("category")),)


ACL_DELUSER: Tree = (many(string("username")),)


ACL_DRYRUN: Tree = (
    string("username"),
    *COMMAND_LINE,
)


ACL_GENPASS: Tree = (optional(integer("bits")),)


ACL_GETUSER: Tree = (string("username"),)


ACL_GETUSER_HISTORY: History = (
    ("6.2.0", "Added channel patterns."),
    ("7.0.0", "Added selectors; patterns told as rules instead of a list."),
)


ACL_LIST: Tree = NONE


ACL_LOAD: Tree = NONE


ACL_LOG: Tree = (optional(oneof("operation", integer("count"), token("RESET"))),)


ACL_LOG_HISTORY: History = (("7.2.0", "Added the entry's ID and the times of its creation and last update."),)


ACL_SAVE: Tree = NONE


ACL_SETUSER: Tree = (string("username"), optional(many(string("rule"))))


ACL_SETUSER_HISTORY: History = (
    ("6.2.0", "Added channel patterns."),
    ("7.0.0", "Added selectors and permissions per key."),
)


ACL_USERS: Tree = NONE


ACL_WHOAMI: Tree = NONE


ACL_HELP: Tree = NONE
