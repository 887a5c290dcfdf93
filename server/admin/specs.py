"""The commands of the server itself (INFO, CONFIG, COMMAND, MEMORY …): one record each."""

from __future__ import annotations

from ...commands.spec.command import Family
from ...commands.spec.grammar import (
    COMMAND_LINE,
    KEY,
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
from ...commands.spec.key_specs import at

family = Family(
    __package__,
    "server",
    modules={
        "command": "command",
        "config": "config",
        "info": "info",
        "latency": "latency",
        "lifecycle": "lolwut shutdown time",
        "memory": "memory",
        "module": "module",
        "monitor": "monitor",
        "slowlog": "slowlog",
    },
)

_COMMAND_NAMES = optional(many(string("command-name")))

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

COMMAND = family.command("COMMAND", arity=-1, flags="loading stale", categories="connection",
    tips="nondeterministic_output_order", since="2.8.13",
    summary="Returns information about all commands.",
    complexity="O(N); N: all commands")

COMMAND_INFO = family.command("COMMAND|INFO", arity=-2, flags="loading stale", categories="connection",
    tips="nondeterministic_output_order", since="2.8.13",
    summary="Returns information about some or all commands.",
    complexity="O(N); N: commands asked for",
    arguments=(_COMMAND_NAMES,),
    history={"7.0.0": "Without names it tells about all commands."})

COMMAND_DOCS = family.command("COMMAND|DOCS", arity=-2, flags="loading stale", categories="connection",
    tips="nondeterministic_output_order", since="7.0.0",
    summary="Returns the documentation of some or all commands.",
    complexity="O(N); N: commands asked for",
    arguments=(_COMMAND_NAMES,))

COMMAND_COUNT = family.command("COMMAND|COUNT", arity=2, flags="loading stale", categories="connection",
    since="2.8.13",
    summary="Returns the number of commands.")

COMMAND_LIST = family.command("COMMAND|LIST", arity=-2, flags="loading stale", categories="connection",
    tips="nondeterministic_output_order", since="7.0.0",
    summary="Returns the names of some or all commands.",
    complexity="O(N); N: all commands",
    arguments=(optional(oneof("filterby", string("module-name", "MODULE"), string("category", "ACLCAT"),
                pattern("pattern", "PATTERN"), after="FILTERBY")),))

COMMAND_GETKEYS = family.command("COMMAND|GETKEYS", arity=-3, flags="loading stale", categories="connection",
    since="2.8.13",
    summary="Extracts the key names from a whole command.",
    complexity="O(N); N: words given",
    arguments=COMMAND_LINE)

COMMAND_GETKEYSANDFLAGS = family.command("COMMAND|GETKEYSANDFLAGS", arity=-3, flags="loading stale",
    categories="connection", since="7.0.0",
    summary="Extracts the key names and their access flags from a whole command.",
    complexity="O(N); N: words given",
    arguments=COMMAND_LINE)

COMMAND_HELP = family.help("COMMAND", categories="connection", since="5.0.0")

CONFIG = family.container("CONFIG", since="2.0.0",
    summary="Groups the commands that configure the server.")

CONFIG_GET = family.command("CONFIG|GET", arity=-3, flags="admin noscript loading stale", since="2.0.0",
    summary="Returns the parameters that match names or patterns, and their values.",
    complexity="O(N); N: parameters returned",
    arguments=(many(string("parameter")),),
    history={"7.0.0": "Allowed more than one pattern."})

CONFIG_SET = family.command("CONFIG|SET", arity=-4, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.0.0",
    summary="Changes parameters, all of them or none.",
    complexity="O(N); N: parameters given",
    arguments=(many(block("data", string("parameter"), string("value"))),),
    history={"7.0.0": "Allowed more than one parameter."})

CONFIG_REWRITE = family.command("CONFIG|REWRITE", arity=2, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.8.0",
    summary="Writes the present configuration into the configuration file.")

CONFIG_RESETSTAT = family.command("CONFIG|RESETSTAT", arity=2, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.0.0",
    summary="Sets the statistics of INFO back to zero.")

CONFIG_HELP = family.help("CONFIG", since="5.0.0")

INFO = family.command("INFO", arity=-1, flags="loading stale", categories="dangerous",
    tips="nondeterministic_output request_policy:all_shards response_policy:special", since="1.0.0",
    summary="Returns figures about the server, by section.",
    arguments=(optional(many(string("section"))),),
    history={"7.0.0": "Allowed more than one section."})

LATENCY = family.container("LATENCY", since="2.8.13",
    summary="Groups the commands on latency samples.")

LATENCY_LATEST = family.command("LATENCY|LATEST", arity=2, flags="admin noscript loading stale",
    tips="nondeterministic_output request_policy:all_nodes response_policy:special", since="2.8.13",
    summary="Returns the latest latency samples of all events.")

LATENCY_HISTORY = family.command("LATENCY|HISTORY", arity=3, flags="admin noscript loading stale",
    tips="nondeterministic_output request_policy:all_nodes response_policy:special", since="2.8.13",
    summary="Returns the samples of an event over time.",
    arguments=(string("event"),))

LATENCY_RESET = family.command("LATENCY|RESET", arity=-2, flags="admin noscript loading stale",
    tips="request_policy:all_nodes response_policy:agg_sum", since="2.8.13",
    summary="Forgets the samples of some or all events.",
    arguments=(optional(many(string("event"))),))

LATENCY_GRAPH = family.command("LATENCY|GRAPH", arity=3, flags="admin noscript loading stale",
    tips="nondeterministic_output request_policy:all_nodes response_policy:special", since="2.8.13",
    summary="Draws the samples of an event as text.",
    arguments=(string("event"),))

LATENCY_DOCTOR = family.command("LATENCY|DOCTOR", arity=2, flags="admin noscript loading stale",
    tips="nondeterministic_output request_policy:all_nodes response_policy:special", since="2.8.13",
    summary="Describes in plain words what the samples show.")

LATENCY_HISTOGRAM = family.command("LATENCY|HISTOGRAM", arity=-2, flags="admin noscript loading stale",
    tips="nondeterministic_output request_policy:all_nodes response_policy:special", since="7.0.0",
    summary="Returns the cumulative distribution of command times.",
    complexity="O(N); N: commands returned",
    arguments=(optional(many(string("command"))),))

LATENCY_HELP = family.help("LATENCY", since="2.8.13")

TIME = family.command("TIME", arity=1, flags="loading stale fast", tips="nondeterministic_output",
    since="2.6.0",
    summary="Returns the server's time.")

SHUTDOWN = family.command("SHUTDOWN", arity=-1, flags="admin noscript loading stale no_multi allow_busy",
    since="1.0.0",
    summary="Stops the server after it has written its files.",
    complexity="O(N) if it saves, otherwise O(1); N: keys of all databases",
    arguments=(optional(oneof("save-selector", token("NOSAVE"), token("SAVE"))), switch("NOW", since="7.0.0"),
        switch("FORCE", since="7.0.0"), switch("ABORT", since="7.0.0")),
    history={"7.0.0": "Added NOW, FORCE and ABORT."})

LOLWUT = family.read("LOLWUT", arity=-1, flags="fast", since="5.0.0",
    summary="Draws something, and names the Redis version.",
    complexity="",
    arguments=(optional(integer("version", "VERSION")),))

MEMORY = family.container("MEMORY", since="4.0.0",
    summary="Groups the commands on memory.")

MEMORY_USAGE = family.read("MEMORY|USAGE", arity=-3, keys=(at(2, "RO"),), since="4.0.0",
    summary="Estimates the memory that a key takes.",
    complexity="O(N); N: SAMPLES",
    arguments=(KEY, optional(integer("count", "SAMPLES"))))

MEMORY_STATS = family.command("MEMORY|STATS", arity=2,
    tips="nondeterministic_output request_policy:all_shards response_policy:special", since="4.0.0",
    summary="Returns figures about the server's memory.")

MEMORY_DOCTOR = family.command("MEMORY|DOCTOR", arity=2,
    tips="nondeterministic_output request_policy:all_shards response_policy:special", since="4.0.0",
    summary="Describes in plain words where the memory goes.")

MEMORY_MALLOC_STATS = family.command("MEMORY|MALLOC-STATS", arity=2,
    tips="nondeterministic_output request_policy:all_shards response_policy:special", since="4.0.0",
    summary="Returns the memory allocator's own figures.",
    complexity="O(N); N: bytes allocated")

MEMORY_PURGE = family.command("MEMORY|PURGE", arity=2,
    tips="request_policy:all_shards response_policy:all_succeeded", since="4.0.0",
    summary="Gives memory that is not needed back to the system.",
    complexity="O(N); N: bytes allocated")

MEMORY_HELP = family.help("MEMORY", since="4.0.0")

MODULE = family.container("MODULE", since="4.0.0",
    summary="Groups the commands on modules.")

MODULE_LIST = family.command("MODULE|LIST", arity=2, flags="admin noscript",
    tips="nondeterministic_output_order", since="4.0.0",
    summary="Returns the loaded modules: none.",
    complexity="O(N); N: modules")

MODULE_LOAD = family.command("MODULE|LOAD", arity=-3, flags="admin noscript no_async_loading protected", since="4.0.0",
    summary="Loads a module. Not in Rillet.",
    arguments=(string("path"), optional(many(string("arg")))))

MODULE_LOADEX = family.command("MODULE|LOADEX", arity=-3, flags="admin noscript no_async_loading protected",
    since="7.0.0",
    summary="Loads a module with parameters. Not in Rillet.",
    arguments=(string("path"),
        optional(many(block("configs", string("name"), string("value"), after="CONFIG"), with_token=True)),
        optional(many(string("args", "ARGS")))))

MODULE_UNLOAD = family.command("MODULE|UNLOAD", arity=3, flags="admin noscript no_async_loading protected",
    since="4.0.0",
    summary="Unloads a module. There are none.",
    arguments=(string("name"),))

MODULE_HELP = family.help("MODULE", since="5.0.0")

MONITOR = family.command("MONITOR", arity=1, flags="admin noscript loading stale", since="1.0.0",
    summary="Streams every command that the server runs to this connection.",
    complexity="")

SLOWLOG = family.container("SLOWLOG", since="2.2.12",
    summary="Groups the commands on the slow log.")

SLOWLOG_GET = family.command("SLOWLOG|GET", arity=-2, flags="admin loading stale",
    tips="request_policy:all_nodes nondeterministic_output", since="2.2.12",
    summary="Returns entries of the slow log, newest first.",
    complexity="O(N); N: entries returned",
    arguments=(optional(integer("count")),),
    history={
        "4.0.0": "Added the client's address and name in the reply.",
        "8.10.0": "Added the number of words of the command in the reply.",
    })

SLOWLOG_LEN = family.command("SLOWLOG|LEN", arity=2, flags="admin loading stale",
    tips="request_policy:all_nodes response_policy:agg_sum nondeterministic_output", since="2.2.12",
    summary="Counts the entries of the slow log.")

SLOWLOG_RESET = family.command("SLOWLOG|RESET", arity=2, flags="admin loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.2.12",
    summary="Empties the slow log.",
    complexity="O(N); N: entries of the log")

SLOWLOG_HELP = family.help("SLOWLOG", since="6.2.0")

# fmt: on
