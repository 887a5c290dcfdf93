"""The syntax of the string commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

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

GET: Tree = (KEY,)
SET: Tree = (
    KEY,
    string("value"),
    optional(oneof("condition", token("NX"), token("XX"), *_COMPARISONS, since="2.6.12")),
    switch("GET", since="6.2.0"),
    optional(
        oneof(
            "expiration",
            integer("seconds", "EX", since="2.6.12"),
            integer("milliseconds", "PX", since="2.6.12"),
            unix_time("unix-time-seconds", "EXAT", since="6.2.0"),
            unix_time("unix-time-milliseconds", "PXAT", since="6.2.0"),
            token("KEEPTTL", since="6.0.0"),
        )
    ),
)
SET_HISTORY: History = (
    ("2.6.12", "Added EX, PX, NX and XX."),
    ("6.0.0", "Added KEEPTTL."),
    ("6.2.0", "Added GET, EXAT and PXAT."),
    ("7.0.0", "NX may stand together with GET."),
    ("8.4.0", "Added IFEQ, IFNE, IFDEQ and IFDNE."),
)
GETDEL: Tree = (KEY,)
GETEX: Tree = (
    KEY,
    optional(
        oneof(
            "expiration",
            integer("seconds", "EX"),
            integer("milliseconds", "PX"),
            unix_time("unix-time-seconds", "EXAT"),
            unix_time("unix-time-milliseconds", "PXAT"),
            token("PERSIST"),
        )
    ),
)
GETSET: Tree = (KEY, string("value"))
SETNX: Tree = (KEY, string("value"))
SETEX: Tree = (KEY, integer("seconds"), string("value"))
PSETEX: Tree = (KEY, integer("milliseconds"), string("value"))
MGET: Tree = (MANY_KEYS,)
MSET: Tree = (_PAIRS,)
MSETNX: Tree = (_PAIRS,)
INCR: Tree = (KEY,)
DECR: Tree = (KEY,)
INCRBY: Tree = (KEY, integer("increment"))
DECRBY: Tree = (KEY, integer("decrement"))
INCRBYFLOAT: Tree = (KEY, double("increment"))
APPEND: Tree = (KEY, string("value"))
STRLEN: Tree = (KEY,)
GETRANGE: Tree = (KEY, integer("start"), integer("end"))
SUBSTR: Tree = (KEY, integer("start"), integer("end"))
SETRANGE: Tree = (KEY, integer("offset"), string("value"))

DIGEST: Tree = (KEY,)
DELEX: Tree = (
    KEY,
    optional(
        oneof(
            "condition",
            string("ifeq-value", "IFEQ"),
            string("ifne-value", "IFNE"),
            string("ifdeq-digest", "IFDEQ"),
            string("ifdne-digest", "IFDNE"),
        )
    ),
)
MSETEX: Tree = (
    integer("numkeys"),
    _PAIRS,
    optional(oneof("condition", token("NX"), token("XX"))),
    optional(oneof("expiration", *_TIMES, token("KEEPTTL"))),
)
INCREX: Tree = (
    KEY,
    optional(oneof("increment", double("float", "BYFLOAT"), integer("integer", "BYINT"))),
    switch("SATURATE"),
    optional(string("lowerbound", "LBOUND")),
    optional(string("upperbound", "UBOUND")),
    optional(oneof("expiration", *_TIMES, token("PERSIST"))),
    switch("ENX"),
)
LCS: Tree = (
    key("key1"),
    key("key2"),
    switch("LEN"),
    switch("IDX"),
    optional(integer("min-match-len", "MINMATCHLEN")),
    switch("WITHMATCHLEN"),
)
