"""The string commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    block,
    double,
    integer,
    key,
    many,
    oneof,
    optional,
    string,
    switch,
    token,
    unix_time,
)
from ..spec.key_specs import CHANGES, INSERTS, INSPECTS, OVERWRITES, READS, TAKES, UPDATES, KeySpec, at

family = Family(
    __package__,
    "string",
    categories="string",
    modules={
        "conditions": "delex digest",
        "counters": "decr decrby incr incrby",
        "get_set": "get getdel getex getset mget mset msetnx psetex set setex setnx",
        "incrbyfloat": "incrbyfloat",
        "increx": "increx",
        "lcs": "lcs",
        "msetex": "msetex",
        "ranges": "append getrange setrange strlen substr",
    },
)

_PAIRS = many(block("data", KEY, string("value")))
_COMPARISONS = (
    string("ifeq-value", "IFEQ", since="8.4.0"),
    string("ifne-value", "IFNE", since="8.4.0"),
    string("ifdeq-digest", "IFDEQ", since="8.4.0"),
    string("ifdne-digest", "IFDNE", since="8.4.0"),
)
_TIMES = (
    integer("seconds", "EX"),
    integer("milliseconds", "PX"),
    unix_time("unix-time-seconds", "EXAT"),
    unix_time("unix-time-milliseconds", "PXAT"),
)
_KEYS_COST = "O(N); N: keys given"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

DIGEST = family.read("DIGEST", arity=2, flags="fast", keys=READS, since="8.4.0",
    summary="Returns a hash of the string at a key.",
    complexity="O(N); N: bytes of the value",
    arguments=(KEY,))

DELEX = family.write("DELEX", arity=-2, flags="fast", keys=(at(1, "RW delete variable_flags"),),
    since="8.4.0",
    summary="Deletes a key if its string, or the hash of it, meets a condition.",
    complexity="O(1), or O(N) with IFDEQ and IFDNE; N: bytes of the value",
    arguments=(KEY,
        optional(oneof("condition", string("ifeq-value", "IFEQ"), string("ifne-value", "IFNE"),
                string("ifdeq-digest", "IFDEQ"), string("ifdne-digest", "IFDNE")))))

INCR = family.write("INCR", arity=2, flags="denyoom fast", keys=CHANGES, since="1.0.0",
    summary="Adds one to the integer at a key; creates the key if it is missing.",
    arguments=(KEY,))

DECR = family.write("DECR", arity=2, flags="denyoom fast", keys=CHANGES, since="1.0.0",
    summary="Subtracts one from the integer at a key; creates the key if it is missing.",
    arguments=(KEY,))

INCRBY = family.write("INCRBY", arity=3, flags="denyoom fast", keys=CHANGES, since="1.0.0",
    summary="Adds to the integer at a key; creates the key if it is missing.",
    arguments=(KEY, integer("increment")))

DECRBY = family.write("DECRBY", arity=3, flags="denyoom fast", keys=CHANGES, since="1.0.0",
    summary="Subtracts from the integer at a key; creates the key if it is missing.",
    arguments=(KEY, integer("decrement")))

INCRBYFLOAT = family.write("INCRBYFLOAT", arity=3, flags="denyoom fast", keys=CHANGES, since="2.6.0",
    summary="Adds to the floating point number at a key; creates the key if it is missing.",
    arguments=(KEY, double("increment")))

INCREX = family.write("INCREX", arity=-2, flags="denyoom fast", keys=CHANGES, since="8.8.0",
    summary="Adds to the number at a key within bounds and sets its expiry; creates the key if it is missing.",
    arguments=(KEY, optional(oneof("increment", double("float", "BYFLOAT"), integer("integer", "BYINT"))),
        switch("SATURATE"), optional(string("lowerbound", "LBOUND")),
        optional(string("upperbound", "UBOUND")), optional(oneof("expiration", *_TIMES, token("PERSIST"))),
        switch("ENX")))

GET = family.read("GET", arity=2, flags="fast", keys=READS, since="1.0.0",
    summary="Returns a key's string.",
    arguments=(KEY,))

SET = family.write("SET", arity=-3, flags="denyoom",
    keys=(at(1, "RW access update variable_flags", notes="with GET it also returns the value"),),
    since="1.0.0",
    summary="Sets a key to a string, whatever it held; creates the key if it is missing.",
    arguments=(KEY, string("value"),
        optional(oneof("condition", token("NX"), token("XX"), *_COMPARISONS, since="2.6.12")),
        switch("GET", since="6.2.0"),
        optional(oneof("expiration", integer("seconds", "EX", since="2.6.12"),
                integer("milliseconds", "PX", since="2.6.12"),
                unix_time("unix-time-seconds", "EXAT", since="6.2.0"),
                unix_time("unix-time-milliseconds", "PXAT", since="6.2.0"),
                token("KEEPTTL", since="6.0.0")))),
    history={
        "2.6.12": "Added EX, PX, NX and XX.",
        "6.0.0": "Added KEEPTTL.",
        "6.2.0": "Added GET, EXAT and PXAT.",
        "7.0.0": "NX may stand together with GET.",
        "8.4.0": "Added IFEQ, IFNE, IFDEQ and IFDNE.",
    })

GETDEL = family.write("GETDEL", arity=2, flags="fast", keys=TAKES, since="6.2.0",
    summary="Returns the string value of a key and deletes the key.",
    arguments=(KEY,))

GETEX = family.write("GETEX", arity=-2, flags="fast",
    keys=(at(1, "RW access update", notes="it may change when the key expires"),), since="6.2.0",
    summary="Returns the string value of a key and sets or removes its expiry.",
    arguments=(KEY,
        optional(oneof("expiration", integer("seconds", "EX"), integer("milliseconds", "PX"),
                unix_time("unix-time-seconds", "EXAT"), unix_time("unix-time-milliseconds", "PXAT"),
                token("PERSIST")))))

GETSET = family.write("GETSET", arity=3, flags="denyoom fast", keys=CHANGES, since="1.0.0",
    doc_flags="deprecated", deprecated_since="6.2.0", replaced_by="`SET` with the `!GET` argument",
    summary="Sets a key to a string and returns the string it held.",
    arguments=(KEY, string("value")))

SETNX = family.write("SETNX", arity=3, flags="denyoom fast", keys=(at(1, "OW insert"),), since="1.0.0",
    doc_flags="deprecated", deprecated_since="2.6.12", replaced_by="`SET` with the `NX` argument",
    summary="Sets a key to a string if the key is missing.",
    arguments=(KEY, string("value")))

SETEX = family.write("SETEX", arity=4, flags="denyoom", keys=OVERWRITES, since="2.0.0",
    doc_flags="deprecated", deprecated_since="2.6.12", replaced_by="`SET` with the `EX` argument",
    summary="Sets a key to a string that expires after some seconds.",
    arguments=(KEY, integer("seconds"), string("value")))

PSETEX = family.write("PSETEX", arity=4, flags="denyoom", keys=OVERWRITES, since="2.6.0",
    doc_flags="deprecated", deprecated_since="2.6.12", replaced_by="`SET` with the `PX` argument",
    summary="Sets a key to a string that expires after some milliseconds.",
    arguments=(KEY, integer("milliseconds"), string("value")))

MGET = family.read("MGET", arity=-2, flags="fast", keys=(at(1, "RO access", last=-1),),
    tips="request_policy:multi_shard", since="1.0.0",
    summary="Returns the string values of keys.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,))

MSET = family.write("MSET", arity=-3, flags="denyoom", keys=(at(1, "OW update", last=-1, step=2),),
    tips="request_policy:multi_shard response_policy:all_succeeded", since="1.0.1",
    summary="Sets keys to strings, all in one step.",
    complexity=_KEYS_COST,
    arguments=(_PAIRS,))

MSETNX = family.write("MSETNX", arity=-3, flags="denyoom", keys=(at(1, "OW insert", last=-1, step=2),),
    since="1.0.1",
    summary="Sets keys to strings, all in one step, if all of them are missing.",
    complexity=_KEYS_COST,
    arguments=(_PAIRS,))

LCS = family.read("LCS", arity=-3, keys=(at(1, "RO access", last=1),), since="7.0.0",
    summary="Finds the longest common subsequence of two strings.",
    complexity="O(N*M); N, M: bytes of the two values",
    arguments=(key("key1"), key("key2"), switch("LEN"), switch("IDX"),
        optional(integer("min-match-len", "MINMATCHLEN")), switch("WITHMATCHLEN")))

MSETEX = family.write("MSETEX", arity=-4, flags="denyoom movablekeys",
    keys=(KeySpec(("OW", "update"), ("index", 1), ("keynum", 0, 1, 2)),),
    tips="request_policy:multi_shard response_policy:all_succeeded", since="8.4.0",
    summary="Sets keys to strings and lets them expire together, all in one step.",
    complexity=_KEYS_COST,
    arguments=(integer("numkeys"), _PAIRS, optional(oneof("condition", token("NX"), token("XX"))),
        optional(oneof("expiration", *_TIMES, token("KEEPTTL")))))

APPEND = family.write("APPEND", arity=3, flags="denyoom fast", keys=INSERTS, since="2.0.0",
    summary="Appends to the string at a key; creates the key if it is missing.",
    complexity="O(N); N: bytes of the new value",
    arguments=(KEY, string("value")))

STRLEN = family.read("STRLEN", arity=2, flags="fast", keys=INSPECTS, since="2.2.0",
    summary="Returns the length of the string at a key.",
    arguments=(KEY,))

GETRANGE = family.read("GETRANGE", arity=4, keys=READS, since="2.4.0",
    summary="Returns a part of the string at a key.",
    complexity="O(N); N: bytes returned",
    arguments=(KEY, integer("start"), integer("end")))

SUBSTR = family.read("SUBSTR", arity=4, keys=READS, since="1.0.0", doc_flags="deprecated",
    deprecated_since="2.0.0", replaced_by="`GETRANGE`",
    summary="Returns a part of the string at a key.",
    complexity="O(N); N: bytes returned",
    arguments=(KEY, integer("start"), integer("end")))

SETRANGE = family.write("SETRANGE", arity=4, flags="denyoom", keys=UPDATES, since="2.2.0",
    summary="Overwrites a part of the string at a key; creates the key if it is missing.",
    complexity="O(N); N: bytes of the new value",
    arguments=(KEY, integer("offset"), string("value")))

# fmt: on
