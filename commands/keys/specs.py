"""The commands for keys of any type: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    block,
    integer,
    key,
    many,
    oneof,
    optional,
    pattern,
    string,
    switch,
    token,
    unix_time,
)
from ..spec.key_finders import keys_of_migrate, keys_of_sort
from ..spec.key_specs import CHANGES, INSPECTS, OVERWRITES, READS, UPDATES, KeySpec, at

family = Family(
    __package__,
    "generic",
    categories="keyspace",
    modules={
        "databases": "copy dbsize flushall flushdb move swapdb",
        "dump": "dump restore restore-asking",
        "expiry": "expire expireat expiretime persist pexpire pexpireat pexpiretime pttl ttl",
        "lifecycle": "del exists rename renamenx touch type unlink",
        "migrate": "migrate",
        "object": "object",
        "scan": "keys randomkey scan",
        "sort": "sort sort_ro",
    },
)

_CONDITION = optional(oneof("condition", token("NX"), token("XX"), token("GT"), token("LT"), since="7.0.0"))
_DESTINATION = key("newkey", spec=1)
_FLUSH = optional(oneof("flush-type", token("ASYNC", since="4.0.0"), token("SYNC", since="6.2.0")))
_SORT_RO_ARGUMENTS = (
    KEY,
    optional(pattern("by-pattern", "BY", key_spec=1, display="pattern")),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
    optional(many(pattern("get-pattern", "GET", key_spec=1, display="pattern"), with_token=True)),
    optional(oneof("order", token("ASC"), token("DESC"))),
    switch("ALPHA", name="sorting"),
)
_DUMP_COST = "O(N); N: elements of the value, or its bytes"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

DBSIZE = family.read("DBSIZE", arity=1, flags="fast", group="server",
    tips="request_policy:all_shards response_policy:agg_sum", since="1.0.0",
    summary="Counts the keys of the database.")

FLUSHDB = family.write("FLUSHDB", arity=-1, categories="keyspace dangerous", group="server",
    tips="request_policy:all_shards response_policy:all_succeeded", since="1.0.0",
    summary="Deletes all keys of the database.",
    complexity="O(N); N: keys of the database",
    arguments=(_FLUSH,),
    history={"4.0.0": "Added ASYNC.", "6.2.0": "Added SYNC."})

FLUSHALL = family.write("FLUSHALL", arity=-1, categories="keyspace dangerous", group="server",
    tips="request_policy:all_shards response_policy:all_succeeded", since="1.0.0",
    summary="Deletes all keys of all databases.",
    complexity="O(N); N: keys of all databases",
    arguments=(_FLUSH,),
    history={"4.0.0": "Added ASYNC.", "6.2.0": "Added SYNC."})

SWAPDB = family.write("SWAPDB", arity=3, flags="fast", categories="keyspace dangerous", group="server",
    since="4.0.0",
    summary="Exchanges the keys of two databases.",
    complexity="O(N); N: clients that watch or wait for keys of the two databases",
    arguments=(integer("index1"), integer("index2")))

MOVE = family.write("MOVE", arity=3, flags="fast", keys=CHANGES, since="1.0.0",
    summary="Moves a key into another database of the server.",
    arguments=(KEY, integer("db")))

COPY = family.write("COPY", arity=-3, flags="denyoom", keys=(at(1, "RO access"), at(2, "OW update")),
    since="6.2.0",
    summary="Copies the value of a key to another key.",
    complexity="O(N); N: elements of the value, or its bytes",
    arguments=(key("source"), key("destination", spec=1), optional(integer("destination-db", "DB")),
        switch("REPLACE")))

DUMP = family.read("DUMP", arity=2, keys=READS, tips="nondeterministic_output", since="2.6.0",
    summary="Returns the value of a key as a payload for RESTORE.",
    complexity=_DUMP_COST,
    arguments=(KEY,))

RESTORE = family.write("RESTORE", arity=-4, flags="denyoom", keys=OVERWRITES, categories="keyspace dangerous",
    since="2.6.0",
    summary="Creates a key from a payload of DUMP.",
    complexity=_DUMP_COST,
    arguments=(KEY, integer("ttl"), string("serialized-value"), switch("REPLACE", since="3.0.0"),
        switch("ABSTTL", since="5.0.0"), optional(integer("seconds", "IDLETIME", since="5.0.0")),
        optional(integer("frequency", "FREQ", since="5.0.0"))),
    history={"3.0.0": "Added REPLACE.", "5.0.0": "Added ABSTTL, IDLETIME and FREQ."})

MIGRATE = family.write("MIGRATE", arity=-6, flags="movablekeys",
    keys=(at(3, "RW access delete"),
        KeySpec(("RW", "access", "delete", "incomplete"), ("keyword", "KEYS", -2), ("range", -1, 1, 0))),
    key_finder=keys_of_migrate, categories="keyspace dangerous", tips="nondeterministic_output", since="2.6.0",
    summary="Moves keys to another server.",
    complexity="those of DUMP, RESTORE and DEL, and O(N) to send the payloads; N: their bytes",
    arguments=(string("host"), integer("port"), oneof("key-selector", KEY, token("", name="empty-string")),
        integer("destination-db"), integer("timeout"), switch("COPY", since="3.0.0"),
        switch("REPLACE", since="3.0.0"),
        optional(oneof("authentication",
            string("auth", "AUTH", display="password", since="4.0.7"),
            block("auth2", string("username"), string("password"), after="AUTH2", since="6.0.0"))),
        optional(many(key("keys", "KEYS", spec=1, display="key", since="3.0.6")))),
    history={
        "3.0.0": "Added COPY and REPLACE.",
        "3.0.6": "Added KEYS.",
        "4.0.7": "Added AUTH.",
        "6.0.0": "Added AUTH2.",
    })

RESTORE_ASKING = family.write("RESTORE-ASKING", arity=-4, flags="denyoom asking", keys=OVERWRITES,
    categories="keyspace dangerous", group="server", since="3.0.0", doc_flags="syscmd",
    summary="RESTORE as a node of a cluster sends it to another.",
    complexity=_DUMP_COST,
    arguments=(KEY, integer("ttl"), string("serialized-value"), switch("REPLACE", since="3.0.0"),
        switch("ABSTTL", since="5.0.0"), optional(integer("seconds", "IDLETIME", since="5.0.0")),
        optional(integer("frequency", "FREQ", since="5.0.0"))),
    history={"3.0.0": "Added REPLACE.", "5.0.0": "Added ABSTTL, IDLETIME and FREQ."})

EXPIRE = family.write("EXPIRE", arity=-3, flags="fast", keys=UPDATES, since="1.0.0",
    summary="Sets the expiry of a key, in seconds from now.",
    arguments=(KEY, integer("seconds"), _CONDITION),
    history={"7.0.0": "Added conditions NX, XX, GT and LT."})

PEXPIRE = family.write("PEXPIRE", arity=-3, flags="fast", keys=UPDATES, since="2.6.0",
    summary="Sets the expiry of a key, in milliseconds from now.",
    arguments=(KEY, integer("milliseconds"), _CONDITION),
    history={"7.0.0": "Added conditions NX, XX, GT and LT."})

EXPIREAT = family.write("EXPIREAT", arity=-3, flags="fast", keys=UPDATES, since="1.2.0",
    summary="Sets the expiry of a key to a Unix time in seconds.",
    arguments=(KEY, unix_time("unix-time-seconds"), _CONDITION),
    history={"7.0.0": "Added conditions NX, XX, GT and LT."})

PEXPIREAT = family.write("PEXPIREAT", arity=-3, flags="fast", keys=UPDATES, since="2.6.0",
    summary="Sets the expiry of a key to a Unix time in milliseconds.",
    arguments=(KEY, unix_time("unix-time-milliseconds"), _CONDITION),
    history={"7.0.0": "Added conditions NX, XX, GT and LT."})

TTL = family.read("TTL", arity=2, flags="fast", keys=READS, tips="nondeterministic_output", since="1.0.0",
    summary="Returns how many seconds a key has to live.",
    arguments=(KEY,),
    history={"2.8.0": "-2 for a missing key."})

PTTL = family.read("PTTL", arity=2, flags="fast", keys=READS, tips="nondeterministic_output", since="2.6.0",
    summary="Returns how many milliseconds a key has to live.",
    arguments=(KEY,),
    history={"2.8.0": "-2 for a missing key."})

EXPIRETIME = family.read("EXPIRETIME", arity=2, flags="fast", keys=READS, since="7.0.0",
    summary="Returns the Unix time in seconds at which a key expires.",
    arguments=(KEY,))

PEXPIRETIME = family.read("PEXPIRETIME", arity=2, flags="fast", keys=READS, since="7.0.0",
    summary="Returns the Unix time in milliseconds at which a key expires.",
    arguments=(KEY,))

PERSIST = family.write("PERSIST", arity=2, flags="fast", keys=UPDATES, since="2.2.0",
    summary="Removes the expiry of a key.",
    arguments=(KEY,))

DEL = family.write("DEL", arity=-2, keys=(at(1, "RM delete", last=-1),),
    tips="request_policy:multi_shard response_policy:agg_sum", since="1.0.0",
    summary="Deletes keys.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,))

UNLINK = family.write("UNLINK", arity=-2, flags="fast", keys=(at(1, "RM delete", last=-1),),
    tips="request_policy:multi_shard response_policy:agg_sum", since="4.0.0",
    summary="Deletes keys.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,))

EXISTS = family.read("EXISTS", arity=-2, flags="fast", keys=(at(1, "RO", last=-1),),
    tips="request_policy:multi_shard response_policy:agg_sum", since="1.0.0",
    summary="Counts which of the keys exist.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,),
    history={"3.0.3": "Allowed more than one key."})

TOUCH = family.read("TOUCH", arity=-2, flags="fast", keys=(at(1, "RO", last=-1),),
    tips="request_policy:multi_shard response_policy:agg_sum", since="3.2.1",
    summary="Sets the time of the last access of keys.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,))

TYPE = family.read("TYPE", arity=2, flags="fast", keys=INSPECTS, since="1.0.0",
    summary="Returns the type of the value at a key.",
    arguments=(KEY,))

RENAME = family.write("RENAME", arity=3, keys=(at(1, "RW access delete"), at(2, "OW update")), since="1.0.0",
    summary="Renames a key, in place of any key with the new name.",
    arguments=(KEY, _DESTINATION))

RENAMENX = family.write("RENAMENX", arity=3, flags="fast",
    keys=(at(1, "RW access delete"), at(2, "OW insert")), since="1.0.0",
    summary="Renames a key if the new name is free.",
    arguments=(KEY, _DESTINATION),
    history={"3.2.0": "No error when both names are the same."})

OBJECT = family.container("OBJECT", since="2.2.3",
    summary="Groups the commands that look at a value's form.")

OBJECT_ENCODING = family.read("OBJECT|ENCODING", arity=3, keys=(at(2, "RO"),), tips="nondeterministic_output",
    since="2.2.3",
    summary="Returns the encoding of a value.",
    arguments=(KEY,))

OBJECT_FREQ = family.read("OBJECT|FREQ", arity=3, keys=(at(2, "RO"),), tips="nondeterministic_output",
    since="4.0.0",
    summary="Returns how often a value is used, on a logarithmic scale.",
    arguments=(KEY,))

OBJECT_IDLETIME = family.read("OBJECT|IDLETIME", arity=3, keys=(at(2, "RO"),), tips="nondeterministic_output",
    since="2.2.3",
    summary="Returns how long ago a value was last used.",
    arguments=(KEY,))

OBJECT_REFCOUNT = family.read("OBJECT|REFCOUNT", arity=3, keys=(at(2, "RO"),), tips="nondeterministic_output",
    since="2.2.3",
    summary="Returns how many references a value has.",
    arguments=(KEY,))

OBJECT_HELP = family.help("OBJECT", since="6.2.0")

SCAN = family.read("SCAN", arity=-2,
    tips="nondeterministic_output request_policy:special response_policy:special", since="2.8.0",
    summary="Walks over the keys of the database, some at a time.",
    complexity="O(C), and O(N) until the cursor is 0 again; C: COUNT, N: all elements",
    arguments=(integer("cursor"), optional(pattern("pattern", "MATCH")), optional(integer("count", "COUNT")),
        optional(string("type", "TYPE", since="6.0.0"))),
    history={"6.0.0": "Added TYPE."})

KEYS = family.read("KEYS", arity=2, categories="keyspace dangerous",
    tips="request_policy:all_shards nondeterministic_output_order", since="1.0.0",
    summary="Returns all keys whose names match a pattern.",
    complexity="O(N); N: keys of the database",
    arguments=(pattern(),))

RANDOMKEY = family.read("RANDOMKEY", arity=1,
    tips="request_policy:all_shards response_policy:special nondeterministic_output", since="1.0.0",
    summary="Returns the name of a random key.")

SORT = family.write("SORT", arity=-2, flags="denyoom movablekeys",
    keys=(at(1, "RO access"),
        KeySpec(("RO", "access"), ("unknown",), ("unknown",),
            notes="keys of BY and GET: their names depend on the elements"),
        KeySpec(("OW", "update"), ("unknown",), ("unknown",),
            notes="the key of STORE, which may stand anywhere among the options")),
    key_finder=keys_of_sort, categories="set sortedset list dangerous", since="1.0.0",
    summary="Returns or stores the elements of a list, set or sorted set in order.",
    complexity="O(N+M*log(M)), or O(N) with BY nosort; N: elements of the key, M: elements returned",
    arguments=(*_SORT_RO_ARGUMENTS, optional(key("destination", "STORE", spec=2))))

SORT_RO = family.read("SORT_RO", arity=-2, flags="movablekeys",
    keys=(at(1, "RO access"),
        KeySpec(("RO", "access"), ("unknown",), ("unknown",),
            notes="keys of BY and GET: their names depend on the elements")),
    categories="set sortedset list dangerous", since="7.0.0",
    summary="Returns the elements of a list, set or sorted set in order.",
    complexity="O(N+M*log(M)), or O(N) with BY nosort; N: elements of the key, M: elements returned",
    arguments=_SORT_RO_ARGUMENTS)

# fmt: on
