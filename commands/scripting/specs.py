"""The scripting commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import MANY_KEYS, integer, many, oneof, optional, string, switch, token
from ..spec.key_specs import KeySpec

family = Family(__package__, "scripting", categories="scripting")

_KEYS_AND_ARGS = integer("numkeys"), optional(MANY_KEYS), optional(many(string("arg")))
_SCRIPT_COST = "that of the script"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

EVAL = family.command("EVAL", arity=-3,
    flags="noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RW", "access", "update"), ("index", 2), ("keynum", 0, 1, 1),
            notes="a script may read and write any of its keys"),),
    since="2.6.0",
    summary="Runs a Lua script.",
    complexity=_SCRIPT_COST,
    arguments=(string("script"), *_KEYS_AND_ARGS))

EVAL_RO = family.read("EVAL_RO", arity=-3, flags="noscript stale skip_monitor no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1),
            notes="a script may read any of its keys"),),
    since="7.0.0",
    summary="Runs a Lua script that only reads.",
    complexity=_SCRIPT_COST,
    arguments=(string("script"), *_KEYS_AND_ARGS))

EVALSHA = family.command("EVALSHA", arity=-3,
    flags="noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RW", "access", "update"), ("index", 2), ("keynum", 0, 1, 1)),), since="2.6.0",
    summary="Runs a Lua script that was loaded before.",
    complexity=_SCRIPT_COST,
    arguments=(string("sha1"), *_KEYS_AND_ARGS))

EVALSHA_RO = family.read("EVALSHA_RO", arity=-3,
    flags="noscript stale skip_monitor no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Runs a Lua script that was loaded before and only reads.",
    complexity=_SCRIPT_COST,
    arguments=(string("sha1"), *_KEYS_AND_ARGS))

SCRIPT = family.container("SCRIPT", since="2.6.0",
    summary="Groups the commands on cached Lua scripts.")

SCRIPT_DEBUG = family.command("SCRIPT|DEBUG", arity=3, flags="noscript", since="3.2.0",
    summary="Sets the debug mode of scripts. Only NO in Rillet.",
    arguments=(oneof("mode", token("YES"), token("SYNC"), token("NO")),))

SCRIPT_EXISTS = family.command("SCRIPT|EXISTS", arity=-3, flags="noscript",
    tips="request_policy:all_shards response_policy:agg_logical_and", since="2.6.0",
    summary="Checks which of the scripts are loaded.",
    complexity="O(N); N: scripts given",
    arguments=(many(string("sha1")),))

SCRIPT_FLUSH = family.command("SCRIPT|FLUSH", arity=-2, flags="noscript",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.6.0",
    summary="Forgets all loaded scripts.",
    complexity="O(N); N: cached scripts",
    arguments=(optional(oneof("flush-type", token("ASYNC"), token("SYNC"), since="6.2.0")),),
    history={"6.2.0": "Added ASYNC and SYNC."})

SCRIPT_KILL = family.command("SCRIPT|KILL", arity=2, flags="noscript allow_busy",
    tips="request_policy:all_shards response_policy:one_succeeded", since="2.6.0",
    summary="Ends the script that is running.")

SCRIPT_LOAD = family.command("SCRIPT|LOAD", arity=3, flags="noscript stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.6.0",
    summary="Loads a Lua script.",
    complexity="O(N); N: bytes of the script",
    arguments=(string("script"),))

SCRIPT_HELP = family.help("SCRIPT", since="5.0.0")

FCALL = family.command("FCALL", arity=-3,
    flags="noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RW", "access", "update"), ("index", 2), ("keynum", 0, 1, 1),
            notes="a script may read and write any of its keys"),),
    since="7.0.0",
    summary="Calls a function.",
    complexity="that of the function",
    arguments=(string("function"), *_KEYS_AND_ARGS))

FCALL_RO = family.read("FCALL_RO", arity=-3,
    flags="noscript stale skip_monitor no_mandatory_keys movablekeys script_runner",
    keys=(KeySpec(("RO", "access"), ("index", 2), ("keynum", 0, 1, 1),
            notes="a script may read any of its keys"),),
    since="7.0.0",
    summary="Calls a function that only reads.",
    complexity="that of the function",
    arguments=(string("function"), *_KEYS_AND_ARGS))

FUNCTION = family.container("FUNCTION", since="7.0.0",
    summary="Groups the commands on libraries of functions.")

FUNCTION_DELETE = family.write("FUNCTION|DELETE", arity=3, flags="noscript",
    tips="request_policy:all_shards response_policy:all_succeeded", since="7.0.0",
    summary="Removes a library with its functions.",
    arguments=(string("library-name"),))

FUNCTION_DUMP = family.command("FUNCTION|DUMP", arity=2, flags="noscript", since="7.0.0",
    summary="Returns all libraries as one binary value.",
    complexity="O(N); N: functions")

FUNCTION_FLUSH = family.write("FUNCTION|FLUSH", arity=-2, flags="noscript",
    tips="request_policy:all_shards response_policy:all_succeeded", since="7.0.0",
    summary="Removes all libraries.",
    complexity="O(N); N: functions deleted",
    arguments=(optional(oneof("flush-type", token("ASYNC"), token("SYNC"))),))

FUNCTION_KILL = family.command("FUNCTION|KILL", arity=2, flags="noscript allow_busy",
    tips="request_policy:all_shards response_policy:one_succeeded", since="7.0.0",
    summary="Ends the function that is running.")

FUNCTION_LIST = family.command("FUNCTION|LIST", arity=-2, flags="noscript",
    tips="nondeterministic_output_order", since="7.0.0",
    summary="Returns the libraries.",
    complexity="O(N); N: functions",
    arguments=(optional(string("library-name-pattern", "LIBRARYNAME")), switch("WITHCODE")))

FUNCTION_LOAD = family.write("FUNCTION|LOAD", arity=-3, flags="denyoom noscript",
    tips="request_policy:all_shards response_policy:all_succeeded", since="7.0.0",
    summary="Loads a library of functions.",
    complexity="O(N); N: bytes of code",
    arguments=(switch("REPLACE"), string("function-code")))

FUNCTION_RESTORE = family.write("FUNCTION|RESTORE", arity=-3, flags="denyoom noscript",
    tips="request_policy:all_shards response_policy:all_succeeded", since="7.0.0",
    summary="Restores libraries that were dumped.",
    complexity="O(N); N: functions in the payload",
    arguments=(string("serialized-value"),
        optional(oneof("policy", token("FLUSH"), token("APPEND"), token("REPLACE")))))

FUNCTION_STATS = family.command("FUNCTION|STATS", arity=2, flags="noscript allow_busy",
    tips="nondeterministic_output request_policy:all_shards response_policy:special", since="7.0.0",
    summary="Returns the running function, and how many functions each engine holds.")

FUNCTION_HELP = family.help("FUNCTION", since="7.0.0")

# fmt: on
