"""The syntax of the commands about the server itself, replication included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    COMMAND_LINE,
    KEY,
    NONE,
    block,
    integer,
    many,
    oneof,
    optional,
    pattern,
    string,
    switch,
    token,
)

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_COMMAND_NAMES = optional(many(string("command-name")))


INFO: Tree = (optional(many(string("section"))),)


INFO_HISTORY: History = (("7.0.0", "Allowed more than one section."),)


TIME: Tree = NONE


MONITOR: Tree = NONE


COMMAND: Tree = NONE


COMMAND_COUNT: Tree = NONE


COMMAND_DOCS: Tree = (_COMMAND_NAMES,)


COMMAND_GETKEYS: Tree = COMMAND_LINE


COMMAND_GETKEYSANDFLAGS: Tree = COMMAND_LINE


COMMAND_INFO: Tree = (_COMMAND_NAMES,)


COMMAND_INFO_HISTORY: History = (("7.0.0", "Without names it tells about all commands."),)


COMMAND_LIST: Tree = (
    optional(
        oneof(
            "filterby",
            string("module-name", "MODULE"),
            string("category", "ACLCAT"),
            pattern("pattern", "PATTERN"),
            after="FILTERBY",
        )
    ),
)


COMMAND_HELP: Tree = NONE


CONFIG: Tree = NONE


CONFIG_GET: Tree = (many(string("parameter")),)


CONFIG_GET_HISTORY: History = (("7.0.0", "Allowed more than one pattern."),)


CONFIG_RESETSTAT: Tree = NONE


CONFIG_REWRITE: Tree = NONE


CONFIG_SET: Tree = (many(block("data", string("parameter"), string("value"))),)


CONFIG_SET_HISTORY: History = (("7.0.0", "Allowed more than one parameter."),)


CONFIG_HELP: Tree = NONE


SLOWLOG: Tree = NONE


SLOWLOG_GET: Tree = (optional(integer("count")),)


SLOWLOG_GET_HISTORY: History = (("4.0.0", "Added the client's address and name in the reply."),)


SLOWLOG_LEN: Tree = NONE


SLOWLOG_RESET: Tree = NONE


SLOWLOG_HELP: Tree = NONE


LATENCY: Tree = NONE


LATENCY_DOCTOR: Tree = NONE


LATENCY_GRAPH: Tree = (string("event"),)


LATENCY_HISTOGRAM: Tree = (optional(many(string("command"))),)


LATENCY_HISTORY: Tree = (string("event"),)


LATENCY_LATEST: Tree = NONE


LATENCY_RESET: Tree = (optional(many(string("event"))),)


LATENCY_HELP: Tree = NONE


MEMORY: Tree = NONE


MEMORY_DOCTOR: Tree = NONE


MEMORY_MALLOC_STATS: Tree = NONE


MEMORY_PURGE: Tree = NONE


MEMORY_STATS: Tree = NONE


MEMORY_USAGE: Tree = (KEY, optional(integer("count", "SAMPLES")))


MEMORY_HELP: Tree = NONE


MODULE: Tree = NONE


MODULE_LIST: Tree = NONE


MODULE_LOAD: Tree = (string("path"), optional(many(string("arg"))))


MODULE_LOADEX: Tree = (
    string("path"),
    optional(many(block("configs", string("name"), string("value"), after="CONFIG"), with_token=True)),
    optional(many(string("args", "ARGS"))),
)


MODULE_UNLOAD: Tree = (string("name"),)


MODULE_HELP: Tree = NONE


DEBUG: Tree = NONE


ROLE: Tree = NONE


LASTSAVE: Tree = NONE


SAVE: Tree = NONE


BGSAVE: Tree = (switch("SCHEDULE", since="3.2.2"),)


BGSAVE_HISTORY: History = (("3.2.2", "Added SCHEDULE."),)


BGREWRITEAOF: Tree = NONE


SHUTDOWN: Tree = (
    optional(oneof("save-selector", token("NOSAVE"), token("SAVE"))),
    switch("NOW", since="7.0.0"),
    switch("FORCE", since="7.0.0"),
    switch("ABORT", since="7.0.0"),
)


SHUTDOWN_HISTORY: History = (("7.0.0", "Added NOW, FORCE and ABORT."),)


LOLWUT: Tree = (optional(integer("version", "VERSION")),)
