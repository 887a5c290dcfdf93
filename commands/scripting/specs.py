"""The syntax of the commands for scripts and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import MANY_KEYS, NONE, integer, many, oneof, optional, string, switch, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_KEYS_AND_ARGS = integer("numkeys"), optional(MANY_KEYS), optional(many(string("arg")))

SCRIPT: Tree = NONE
SCRIPT_DEBUG: Tree = (oneof("mode", token("YES"), token("SYNC"), token("NO")),)
SCRIPT_EXISTS: Tree = (many(string("sha1")),)
SCRIPT_FLUSH: Tree = (optional(oneof("flush-type", token("ASYNC"), token("SYNC"), since="6.2.0")),)
SCRIPT_FLUSH_HISTORY: History = (("6.2.0", "Added ASYNC and SYNC."),)
SCRIPT_KILL: Tree = NONE
SCRIPT_LOAD: Tree = (string("script"),)
SCRIPT_HELP: Tree = NONE

FUNCTION: Tree = NONE
FUNCTION_DELETE: Tree = (string("library-name"),)
FUNCTION_DUMP: Tree = NONE
FUNCTION_FLUSH: Tree = (optional(oneof("flush-type", token("ASYNC"), token("SYNC"))),)
FUNCTION_KILL: Tree = NONE
FUNCTION_LIST: Tree = (optional(string("library-name-pattern", "LIBRARYNAME")), switch("WITHCODE"))
FUNCTION_LOAD: Tree = (switch("REPLACE"), string("function-code"))
FUNCTION_RESTORE: Tree = (
    string("serialized-value"),
    optional(oneof("policy", token("FLUSH"), token("APPEND"), token("REPLACE"))),
)
FUNCTION_STATS: Tree = NONE
FUNCTION_HELP: Tree = NONE

EVAL: Tree = (string("script"), *_KEYS_AND_ARGS)
EVALSHA: Tree = (string("sha1"), *_KEYS_AND_ARGS)
EVAL_RO: Tree = (string("script"), *_KEYS_AND_ARGS)
EVALSHA_RO: Tree = (string("sha1"), *_KEYS_AND_ARGS)
FCALL: Tree = (string("function"), *_KEYS_AND_ARGS)
FCALL_RO: Tree = (string("function"), *_KEYS_AND_ARGS)
