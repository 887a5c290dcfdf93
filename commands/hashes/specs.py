"""The syntax of the hash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    KEY,
    block,
    double,
    integer,
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

_FIELD = string("field")
_PAIRS = many(block("data", _FIELD, string("value")))
_FIELDS = block("fields", integer("numfields"), many(_FIELD), after="FIELDS")
_CONDITION = optional(oneof("condition", token("NX"), token("XX"), token("GT"), token("LT")))
_TIMES = (
    integer("seconds", "EX"),
    integer("milliseconds", "PX"),
    unix_time("unix-time-seconds", "EXAT"),
    unix_time("unix-time-milliseconds", "PXAT"),
)

HSET: Tree = (KEY, _PAIRS)
HSET_HISTORY: History = (("4.0.0", "Allowed more than one field and value."),)
HMSET: Tree = (KEY, _PAIRS)
HSETNX: Tree = (KEY, _FIELD, string("value"))
HGET: Tree = (KEY, _FIELD)
HMGET: Tree = (KEY, many(_FIELD))
HGETALL: Tree = (KEY,)
HKEYS: Tree = (KEY,)
HVALS: Tree = (KEY,)
HLEN: Tree = (KEY,)
HEXISTS: Tree = (KEY, _FIELD)
HDEL: Tree = (KEY, many(_FIELD))
HDEL_HISTORY: History = (("2.4.0", "Allowed more than one field."),)
HSTRLEN: Tree = (KEY, _FIELD)
HINCRBY: Tree = (KEY, _FIELD, integer("increment"))
HINCRBYFLOAT: Tree = (KEY, _FIELD, double("increment"))
HRANDFIELD: Tree = (KEY, optional(block("options", integer("count"), switch("WITHVALUES"))))
HSCAN: Tree = (
    KEY,
    integer("cursor"),
    optional(pattern("pattern", "MATCH")),
    optional(integer("count", "COUNT")),
    switch("NOVALUES"),
)

HIMPORT_PREPARE: Tree = (string("fieldset-name"), many(_FIELD))
HIMPORT_SET: Tree = (KEY, string("fieldset-name"), many(string("value")))
HIMPORT_DISCARD: Tree = (string("fieldset-name"),)
HIMPORT_DISCARDALL: Tree = ()

HEXPIRE: Tree = (KEY, integer("seconds"), _CONDITION, _FIELDS)
HPEXPIRE: Tree = (KEY, integer("milliseconds"), _CONDITION, _FIELDS)
HEXPIREAT: Tree = (KEY, unix_time("unix-time-seconds"), _CONDITION, _FIELDS)
HPEXPIREAT: Tree = (KEY, unix_time("unix-time-milliseconds"), _CONDITION, _FIELDS)
HTTL: Tree = (KEY, _FIELDS)
HPTTL: Tree = (KEY, _FIELDS)
HEXPIRETIME: Tree = (KEY, _FIELDS)
HPEXPIRETIME: Tree = (KEY, _FIELDS)
HPERSIST: Tree = (KEY, _FIELDS)
HGETDEL: Tree = (KEY, _FIELDS)
HGETEX: Tree = (KEY, optional(oneof("expiration", *_TIMES, token("PERSIST"))), _FIELDS)
HSETEX: Tree = (
    KEY,
    optional(oneof("condition", token("FNX"), token("FXX"))),
    optional(oneof("expiration", *_TIMES, token("KEEPTTL"))),
    block("fields", integer("numfields"), _PAIRS, after="FIELDS"),
)
