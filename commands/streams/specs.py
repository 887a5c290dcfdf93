"""The syntax of the stream commands, as of Redis 8.10."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    NONE,
    block,
    integer,
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

_COUNT = optional(integer("count", "COUNT"))
_MAX_COUNT = optional(integer("maxcount", "MAXCOUNT", since="8.10.0"))
_MAX_SIZE = optional(integer("maxsize", "MAXSIZE", since="8.10.0"))
_POLICIES = token("KEEPREF"), token("DELREF"), token("ACKED")
_POLICY = optional(oneof("condition", *_POLICIES))
_POLICY_OF_TRIM = optional(oneof("condition", *_POLICIES, since="8.2.0"))
_NUMBERED_IDS = block("ids", integer("numids"), many(string("id")), after="IDS")
_IDS = many(string("id"))
_GROUP = string("group")
_CONSUMER = string("consumer")
_MIN_IDLE = string("min-idle-time")
_STRATEGY = oneof("strategy", token("MAXLEN"), token("MINID", since="6.2.0"))
_OPERATOR = optional(oneof("operator", token("=", name="equal"), token("~", name="approximately")))
_TRIM = block(
    "trim", _STRATEGY, _OPERATOR, string("threshold"), optional(integer("count", "LIMIT", since="6.2.0"))
)
_STREAMS = block("streams", MANY_KEYS, _IDS, after="STREAMS")
_BLOCK = optional(integer("milliseconds", "BLOCK"))
_ID_OR_LAST = oneof("id-selector", string("id"), token("$", name="new-id"))
_ENTRIES_READ = optional(integer("entriesread", "ENTRIESREAD", display="entries-read"))

_IDEMPOTENT = oneof(
    "idmp",
    string("pid", "IDMPAUTO", display="producer-id"),
    block(
        "idmp-block",
        token("IDMP"),
        string("pid", display="producer-id"),
        string("iid", display="idempotent-id"),
    ),
    since="8.6.0",
)

XADD: Tree = (
    KEY,
    switch("NOMKSTREAM", since="6.2.0"),
    _POLICY_OF_TRIM,
    optional(_IDEMPOTENT),
    optional(_TRIM),
    oneof("id-selector", token("*", name="auto-id"), string("id")),
    many(block("data", string("field"), string("value"))),
)
XADD_HISTORY: History = (
    ("6.2.0", "Added NOMKSTREAM, trimming by MINID, and LIMIT."),
    ("7.0.0", "Added IDs with a given time and a generated sequence: <ms>-*."),
    ("8.2.0", "Added KEEPREF, DELREF and ACKED."),
    ("8.6.0", "Added IDMP and IDMPAUTO."),
)
XLEN: Tree = (KEY,)
XRANGE: Tree = (KEY, string("start"), string("end"), _COUNT)
XRANGE_HISTORY: History = (("6.2.0", "Added exclusive bounds."),)
XREVRANGE: Tree = (KEY, string("end"), string("start"), _COUNT)
XREVRANGE_HISTORY: History = XRANGE_HISTORY
XDEL: Tree = (KEY, _IDS)
XDELEX: Tree = (KEY, _POLICY, _NUMBERED_IDS)
XTRIM: Tree = (KEY, replace(_TRIM, arguments=(*_TRIM.arguments, _POLICY_OF_TRIM)))
XTRIM_HISTORY: History = (
    ("6.2.0", "Added trimming by MINID, and LIMIT."),
    ("8.2.0", "Added KEEPREF, DELREF and ACKED."),
)
XREAD: Tree = (_COUNT, _MAX_COUNT, _MAX_SIZE, _BLOCK, _STREAMS)
XREAD_HISTORY: History = (("8.10.0", "Added MAXCOUNT and MAXSIZE."),)
XREADGROUP: Tree = (
    block("group-block", _GROUP, _CONSUMER, after="GROUP"),
    _COUNT,
    _MAX_COUNT,
    _MAX_SIZE,
    _BLOCK,
    optional(integer("min-idle-time", "CLAIM", since="8.4.0")),
    switch("NOACK"),
    _STREAMS,
)
XREADGROUP_HISTORY: History = (
    ("8.4.0", "Added CLAIM."),
    ("8.10.0", "Added MAXCOUNT and MAXSIZE."),
)
XACK: Tree = (KEY, _GROUP, _IDS)
XACKDEL: Tree = (KEY, _GROUP, _POLICY, _NUMBERED_IDS)
XNACK: Tree = (
    KEY,
    _GROUP,
    oneof("mode", token("SILENT"), token("FAIL"), token("FATAL")),
    _NUMBERED_IDS,
    optional(integer("count", "RETRYCOUNT")),
    switch("FORCE"),
)
XPENDING: Tree = (
    KEY,
    _GROUP,
    optional(
        block(
            "filters",
            optional(integer("min-idle-time", "IDLE", since="6.2.0")),
            string("start"),
            string("end"),
            integer("count"),
            optional(_CONSUMER),
        )
    ),
)
XPENDING_HISTORY: History = (("6.2.0", "Added IDLE, and exclusive bounds."),)
XCLAIM: Tree = (
    KEY,
    _GROUP,
    _CONSUMER,
    _MIN_IDLE,
    _IDS,
    optional(integer("ms", "IDLE")),
    optional(unix_time("unix-time-milliseconds", "TIME")),
    optional(integer("count", "RETRYCOUNT")),
    switch("FORCE"),
    switch("JUSTID"),
    optional(string("lastid", "LASTID")),
)
XAUTOCLAIM: Tree = (KEY, _GROUP, _CONSUMER, _MIN_IDLE, string("start"), _COUNT, switch("JUSTID"))
XAUTOCLAIM_HISTORY: History = (
    ("7.0.0", "Added a third element: the IDs that were in the PEL but no longer in the stream."),
)
XSETID: Tree = (
    KEY,
    string("last-id"),
    optional(integer("entries-added", "ENTRIESADDED", since="7.0.0")),
    optional(string("max-deleted-id", "MAXDELETEDID", since="7.0.0")),
)
XSETID_HISTORY: History = (("7.0.0", "Added ENTRIESADDED and MAXDELETEDID."),)

XINFO: Tree = NONE
XINFO_CONSUMERS: Tree = (KEY, _GROUP)
XINFO_CONSUMERS_HISTORY: History = (
    ("7.2.0", "Added the field inactive; idle counts from the last attempt instead of the last success."),
)
XINFO_GROUPS: Tree = (KEY,)
XINFO_GROUPS_HISTORY: History = (("7.0.0", "Added the fields entries-read and lag."),)
XINFO_STREAM: Tree = (KEY, optional(block("full-block", token("FULL"), _COUNT)))
XINFO_STREAM_HISTORY: History = (
    ("6.0.0", "Added FULL."),
    (
        "7.0.0",
        "Added the fields max-deleted-entry-id, entries-added, recorded-first-entry-id, entries-read and lag.",
    ),
    ("7.2.0", "Added the field active-time; seen-time is the last attempt instead of the last success."),
    (
        "8.6.0",
        "Added the fields idmp-duration, idmp-maxsize, pids-tracked, iids-tracked, iids-added and iids-duplicates.",
    ),
    ("8.8.0", "Added the field nacked-count."),
)
XINFO_HELP: Tree = NONE

XCFGSET: Tree = (
    KEY,
    optional(integer("duration", "IDMP-DURATION", display="seconds")),
    optional(integer("maxsize", "IDMP-MAXSIZE", display="entries")),
)
XIDMPRECORD: Tree = (
    KEY,
    string("pid", display="producer-id"),
    string("iid", display="idempotent-id"),
    string("id", display="entry-id"),
)

XGROUP: Tree = NONE
XGROUP_CREATE: Tree = (KEY, _GROUP, _ID_OR_LAST, switch("MKSTREAM"), _ENTRIES_READ)
XGROUP_CREATE_HISTORY: History = (("7.0.0", "Added ENTRIESREAD."),)
XGROUP_CREATECONSUMER: Tree = (KEY, _GROUP, _CONSUMER)
XGROUP_DELCONSUMER: Tree = (KEY, _GROUP, _CONSUMER)
XGROUP_DESTROY: Tree = (KEY, _GROUP)
XGROUP_SETID: Tree = (KEY, _GROUP, _ID_OR_LAST, _ENTRIES_READ)
XGROUP_SETID_HISTORY: History = (("7.0.0", "Added ENTRIESREAD."),)
XGROUP_HELP: Tree = NONE
