"""The syntax of the commands for keys of any type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    NONE,
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

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_CONDITION = optional(oneof("condition", token("NX"), token("XX"), token("GT"), token("LT"), since="7.0.0"))


_DESTINATION = key("newkey", spec=1)


DEL: Tree = (MANY_KEYS,)


UNLINK: Tree = (MANY_KEYS,)


EXISTS: Tree = (MANY_KEYS,)


EXISTS_HISTORY: History = (("3.0.3", "Allowed more than one key."),)


TOUCH: Tree = (MANY_KEYS,)


TYPE: Tree = (KEY,)


EXPIRE: Tree = (KEY, integer("seconds"), _CONDITION)


EXPIRE_HISTORY: History = (("7.0.0", "Added conditions NX, XX, GT and LT."),)


PEXPIRE: Tree = (KEY, integer("milliseconds"), _CONDITION)


PEXPIRE_HISTORY: History = EXPIRE_HISTORY


EXPIREAT: Tree = (KEY, unix_time("unix-time-seconds"), _CONDITION)


EXPIREAT_HISTORY: History = EXPIRE_HISTORY


PEXPIREAT: Tree = (KEY, unix_time("unix-time-milliseconds"), _CONDITION)


PEXPIREAT_HISTORY: History = EXPIRE_HISTORY


TTL: Tree = (KEY,)


TTL_HISTORY: History = (("2.8.0", "-2 for a missing key."),)


PTTL: Tree = (KEY,)


PTTL_HISTORY: History = TTL_HISTORY


EXPIRETIME: Tree = (KEY,)


PEXPIRETIME: Tree = (KEY,)


PERSIST: Tree = (KEY,)


RENAME: Tree = (KEY, _DESTINATION)


RENAMENX: Tree = (KEY, _DESTINATION)


RENAMENX_HISTORY: History = (("3.2.0", "No error when both names are the same."),)


COPY: Tree = (
    key("source"),
    key("destination", spec=1),
    optional(integer("destination-db", "DB")),
    switch("REPLACE"),
)


MOVE: Tree = (KEY, integer("db"))


KEYS: Tree = (pattern(),)


SCAN: Tree = (
    integer("cursor"),
    optional(pattern("pattern", "MATCH")),
    optional(integer("count", "COUNT")),
    optional(string("type", "TYPE", since="6.0.0")),
)


SCAN_HISTORY: History = (("6.0.0", "Added TYPE."),)


RANDOMKEY: Tree = NONE


OBJECT: Tree = NONE


OBJECT_ENCODING: Tree = (KEY,)


OBJECT_FREQ: Tree = (KEY,)


OBJECT_IDLETIME: Tree = (KEY,)


OBJECT_REFCOUNT: Tree = (KEY,)


OBJECT_HELP: Tree = NONE


DUMP: Tree = (KEY,)


RESTORE: Tree = (
    KEY,
    integer("ttl"),
    string("serialized-value"),
    switch("REPLACE", since="3.0.0"),
    switch("ABSTTL", since="5.0.0"),
    optional(integer("seconds", "IDLETIME", since="5.0.0")),
    optional(integer("frequency", "FREQ", since="5.0.0")),
)


RESTORE_HISTORY: History = (
    ("3.0.0", "Added REPLACE."),
    ("5.0.0", "Added ABSTTL, IDLETIME and FREQ."),
)


RESTORE_ASKING: Tree = (
    KEY,
    integer("ttl"),
    string("serialized-value"),
    switch("REPLACE", since="3.0.0"),
    switch("ABSTTL", since="5.0.0"),
    optional(integer("seconds", "IDLETIME", since="5.0.0")),
    optional(integer("frequency", "FREQ", since="5.0.0")),
)


RESTORE_ASKING_HISTORY: History = RESTORE_HISTORY


SORT_RO: Tree = (
    KEY,
    optional(pattern("by-pattern", "BY", spec=1, display="pattern")),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
    optional(many(pattern("get-pattern", "GET", spec=1, display="pattern"), with_token=True)),
    optional(oneof("order", token("ASC"), token("DESC"))),
    switch("ALPHA", name="sorting"),
)


SORT: Tree = (*SORT_RO, optional(key("destination", "STORE", spec=2)))


_FLUSH = optional(oneof("flush-type", token("ASYNC", since="4.0.0"), token("SYNC", since="6.2.0")))


DBSIZE: Tree = NONE


FLUSHDB: Tree = (_FLUSH,)


FLUSHDB_HISTORY: History = (
    ("4.0.0", "Added ASYNC."),
    ("6.2.0", "Added SYNC."),
)


FLUSHALL: Tree = (_FLUSH,)


FLUSHALL_HISTORY: History = FLUSHDB_HISTORY


SWAPDB: Tree = (integer("index1"), integer("index2"))
