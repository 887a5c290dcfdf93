"""The stream commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import (
    KEY,
    MANY_KEYS,
    block,
    integer,
    many,
    oneof,
    optional,
    silent,
    string,
    switch,
    token,
    unix_time,
)
from ..spec.key_finders import keys_of_streams
from ..spec.key_specs import DELETES, INSPECTS, READS, UPDATES, KeySpec, at

family = Family(
    __package__,
    "stream",
    categories="stream",
    modules={
        "idempotency": "xcfgset xidmprecord",
        "xack": "xack xnack",
        "xadd_batch": "xadd",
        "xautoclaim": "xautoclaim",
        "xclaim": "xclaim",
        "xdel": "xackdel xdel xdelex",
        "xgroup": "xgroup",
        "xinfo": "xinfo",
        "xpending": "xpending",
        "xrange": "xlen xrange xrevrange",
        "xread": "xread",
        "xreadgroup": "xreadgroup",
        "xsetid": "xsetid",
        "xtrim": "xtrim",
    },
)

_COUNT = optional(integer("count", "COUNT"))
_MAX_COUNT = optional(integer("maxcount", "MAXCOUNT", since="8.10.0"))
_MAX_SIZE = optional(integer("maxsize", "MAXSIZE", since="8.10.0"))
_POLICIES = token("KEEPREF"), token("DELREF"), token("ACKED")
_POLICY = optional(oneof("condition", *_POLICIES))
_POLICY_OF_TRIM = optional(silent(oneof("condition", *_POLICIES, since="8.2.0")))
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
    string("pid", "IDMPAUTO"),
    block("idmp", string("pid"), string("iid"), after="IDMP"),
    since="8.6.0",
)

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

XCFGSET = family.write("XCFGSET", arity=-2, flags="fast", keys=UPDATES, since="8.6.0",
    summary="Sets how long and how many idempotent IDs a stream remembers; a change forgets the present ones.",
    arguments=(KEY, optional(integer("idmp-duration", "IDMP-DURATION")),
        optional(integer("idmp-maxsize", "IDMP-MAXSIZE"))))

XIDMPRECORD = family.write("XIDMPRECORD", arity=5, flags="denyoom fast", keys=UPDATES, since="8.6.2",
    summary="Records which entry belongs to a producer's idempotent ID; meant for replaying.",
    arguments=(KEY, string("pid"), string("iid"), string("stream-id")))

XACK = family.write("XACK", arity=-4, flags="fast", keys=UPDATES, since="5.0.0",
    summary="Acknowledges pending entries of a consumer group and returns how many there were.",
    complexity="O(N); N: IDs given",
    arguments=(KEY, _GROUP, _IDS))

XADD = family.write("XADD", arity=-5, flags="denyoom fast",
    keys=(at(1, "RW update", notes="it may also trim the stream"),),
    tips="nondeterministic_output", since="5.0.0",
    summary="Appends an entry to a stream, which is created if it does not exist.",
    complexity="O(1), and O(N) to trim; N: entries removed",
    arguments=(KEY, switch("NOMKSTREAM", since="6.2.0"), _POLICY_OF_TRIM, optional(_IDEMPOTENT),
        optional(_TRIM), oneof("id-selector", token("*", name="auto-id"), string("id")),
        many(block("data", string("field"), string("value")))),
    history={
        "6.2.0": "Added NOMKSTREAM, trimming by MINID, and LIMIT.",
        "7.0.0": "Added IDs with a given time and a generated sequence: <ms>-*.",
        "8.2.0": "Added KEEPREF, DELREF and ACKED.",
    })

XAUTOCLAIM = family.write("XAUTOCLAIM", arity=-6, flags="fast", keys=DELETES, tips="nondeterministic_output",
    since="6.2.0",
    summary="Searches a group for pending entries that are idle for long enough and makes a consumer their "
        "owner.",
    complexity="O(N); N: pending entries looked at, at most 10 times COUNT",
    arguments=(KEY, _GROUP, _CONSUMER, _MIN_IDLE, string("start"), _COUNT, switch("JUSTID")),
    history={"7.0.0": "Added a third element: the IDs that were in the PEL but no longer in the stream."})

XCLAIM = family.write("XCLAIM", arity=-6, flags="fast", keys=UPDATES, tips="nondeterministic_output",
    since="5.0.0",
    summary="Makes a consumer the owner of pending entries, as if they had been delivered to it.",
    complexity="O(M*log(N)); M: IDs given, N: entries of the group's PEL",
    arguments=(KEY, _GROUP, _CONSUMER, _MIN_IDLE, _IDS, optional(integer("ms", "IDLE")),
        optional(unix_time("unix-time-milliseconds", "TIME")), optional(integer("count", "RETRYCOUNT")),
        switch("FORCE"), switch("JUSTID"), optional(string("lastid", "LASTID"))))

XDELEX = family.write("XDELEX", arity=-5, flags="fast", keys=DELETES, since="8.2.0",
    summary="Deletes entries of a stream by their IDs, with or without the groups' references to them.",
    complexity="O(N); N: IDs given",
    arguments=(KEY, _POLICY, _NUMBERED_IDS))

XACKDEL = family.write("XACKDEL", arity=-6, flags="fast", keys=(at(1, "RW update delete"),), since="8.2.0",
    summary="Acknowledges entries for a consumer group and deletes them.",
    complexity="O(N); N: IDs given",
    arguments=(KEY, _GROUP, _POLICY, _NUMBERED_IDS))

XDEL = family.write("XDEL", arity=-3, flags="fast", keys=DELETES, since="5.0.0",
    summary="Deletes entries of a stream by their IDs and returns how many there were.",
    complexity="O(N); N: IDs given",
    arguments=(KEY, _IDS))

XGROUP = family.container("XGROUP", since="5.0.0",
    summary="Commands that manage consumer groups.")

XGROUP_CREATE = family.write("XGROUP|CREATE", arity=-5, flags="denyoom", keys=(at(2, "RW insert"),),
    since="5.0.0",
    summary="Creates a consumer group at an ID, and on request the stream as well.",
    arguments=(KEY, _GROUP, _ID_OR_LAST, switch("MKSTREAM"), _ENTRIES_READ),
    history={"7.0.0": "Added ENTRIESREAD."})

XGROUP_SETID = family.write("XGROUP|SETID", arity=-5, keys=(at(2, "RW update"),), since="5.0.0",
    summary="Sets the last delivered ID of a consumer group.",
    arguments=(KEY, _GROUP, _ID_OR_LAST, _ENTRIES_READ),
    history={"7.0.0": "Added ENTRIESREAD."})

XGROUP_DESTROY = family.write("XGROUP|DESTROY", arity=4, keys=(at(2, "RW delete"),), since="5.0.0",
    summary="Removes a consumer group with its consumers and pending entries.",
    complexity="O(N); N: entries of the group's PEL",
    arguments=(KEY, _GROUP))

XGROUP_CREATECONSUMER = family.write("XGROUP|CREATECONSUMER", arity=5, flags="denyoom",
    keys=(at(2, "RW insert"),), since="6.2.0",
    summary="Adds a consumer to a consumer group.",
    arguments=(KEY, _GROUP, _CONSUMER))

XGROUP_DELCONSUMER = family.write("XGROUP|DELCONSUMER", arity=5, keys=(at(2, "RW delete"),), since="5.0.0",
    summary="Removes a consumer and its pending entries from a consumer group.",
    complexity="O(N); N: entries of the consumer's PEL",
    arguments=(KEY, _GROUP, _CONSUMER))

XGROUP_HELP = family.help("XGROUP", since="5.0.0")

XINFO = family.container("XINFO", since="5.0.0",
    summary="Commands that look into streams.")

XINFO_STREAM = family.read("XINFO|STREAM", arity=-3, keys=(at(2, "RO access"),), since="5.0.0",
    summary="Returns the state of a stream.",
    complexity="O(1), or O(N) with FULL; N: entries returned",
    arguments=(KEY, optional(block("full-block", token("FULL"), _COUNT))),
    history={
        "6.0.0": "Added FULL.",
        "7.0.0": "Added the fields max-deleted-entry-id, entries-added, recorded-first-entry-id, entries-read"
            " and lag.",
        "7.2.0": "Added the field active-time; seen-time is the last attempt instead of the last success.",
        "8.6.0": "Added the fields idmp-duration, idmp-maxsize, pids-tracked, iids-tracked, iids-added and "
            "iids-duplicates.",
        "8.8.0": "Added the field nacked-count.",
    })

XINFO_GROUPS = family.read("XINFO|GROUPS", arity=3, keys=(at(2, "RO access"),), since="5.0.0",
    summary="Lists the consumer groups of a stream.",
    arguments=(KEY,),
    history={"7.0.0": "Added the fields entries-read and lag."})

XINFO_CONSUMERS = family.read("XINFO|CONSUMERS", arity=4, keys=(at(2, "RO access"),),
    tips="nondeterministic_output", since="5.0.0",
    summary="Lists the consumers of a consumer group.",
    arguments=(KEY, _GROUP),
    history={"7.2.0": "Added the field inactive; idle counts from the last attempt instead of the last success."})

XINFO_HELP = family.help("XINFO", since="5.0.0")

XNACK = family.write("XNACK", arity=-7, flags="fast", keys=UPDATES, since="8.8.0",
    summary="Returns pending entries to their consumer group, for the next consumer that claims.",
    complexity="O(N); N: IDs given",
    arguments=(KEY, _GROUP, oneof("mode", token("SILENT"), token("FAIL"), token("FATAL")), _NUMBERED_IDS,
        optional(integer("count", "RETRYCOUNT")), switch("FORCE")))

XPENDING = family.read("XPENDING", arity=-3, keys=READS, tips="nondeterministic_output", since="5.0.0",
    summary="Returns the pending entries of a consumer group, with their consumers and idle times.",
    complexity="O(N), or O(C) for the summary; N: entries returned, C: consumers",
    arguments=(KEY, _GROUP,
        optional(block("filters", optional(integer("min-idle-time", "IDLE", since="6.2.0")), string("start"),
                string("end"), integer("count"), optional(_CONSUMER)))),
    history={"6.2.0": "Added IDLE, and exclusive bounds."})

XLEN = family.read("XLEN", arity=2, flags="fast", keys=INSPECTS, since="5.0.0",
    summary="Returns the number of entries in a stream.",
    arguments=(KEY,))

XRANGE = family.read("XRANGE", arity=-4, keys=READS, since="5.0.0",
    summary="Returns the entries of a stream within a range of IDs.",
    complexity="O(N); N: entries returned, at most COUNT",
    arguments=(KEY, string("start"), string("end"), _COUNT),
    history={"6.2.0": "Added exclusive bounds."})

XREVRANGE = family.read("XREVRANGE", arity=-4, keys=READS, since="5.0.0",
    summary="Returns the entries of a stream within a range of IDs, the greatest ID first.",
    complexity="O(N); N: entries returned, at most COUNT",
    arguments=(KEY, string("end"), string("start"), _COUNT),
    history={"6.2.0": "Added exclusive bounds."})

XREAD = family.read("XREAD", arity=-4, flags="blocking movablekeys",
    keys=(KeySpec(("RO", "access", "incomplete"), ("keyword", "STREAMS", 1), ("range", -1, 1, 2),
            notes="A key or an option's value may be called STREAMS, too"),),
    key_finder=keys_of_streams, since="5.0.0",
    summary="Returns entries after given IDs from several streams, or waits for them.",
    complexity="",
    arguments=(_COUNT, _MAX_COUNT, _MAX_SIZE, _BLOCK, _STREAMS),
    history={"8.10.0": "Added MAXCOUNT and MAXSIZE."})

XREADGROUP = family.write("XREADGROUP", arity=-7, flags="blocking movablekeys",
    keys=(KeySpec(("RO", "access", "incomplete"), ("keyword", "STREAMS", 4), ("range", -1, 1, 2),
            notes="A group, a consumer or a key may be called STREAMS, too"),),
    key_finder=keys_of_streams, since="5.0.0",
    summary="Delivers new entries of several streams to a consumer of a group, or returns "
        "its pending ones.",
    complexity="O(K+N); K: streams given, N: entries returned",
    arguments=(block("group-block", _GROUP, _CONSUMER, after="GROUP"), _COUNT, _MAX_COUNT, _MAX_SIZE, _BLOCK,
        optional(integer("min-idle-time", "CLAIM", since="8.4.0")), switch("NOACK"), _STREAMS),
    history={"8.4.0": "Added CLAIM.", "8.10.0": "Added MAXCOUNT and MAXSIZE."})

XSETID = family.write("XSETID", arity=-3, flags="denyoom fast", keys=UPDATES, since="5.0.0",
    summary="Sets the last ID and the counters of a stream; meant for replaying.",
    arguments=(KEY, string("last-id"), optional(integer("entries-added", "ENTRIESADDED", since="7.0.0")),
        optional(string("max-deleted-id", "MAXDELETEDID", since="7.0.0"))),
    history={"7.0.0": "Added ENTRIESADDED and MAXDELETEDID."})

XTRIM = family.write("XTRIM", arity=-4, keys=DELETES, tips="nondeterministic_output", since="5.0.0",
    summary="Deletes the oldest entries of a stream beyond a length or below an ID.",
    complexity="O(N); N: entries removed",
    arguments=(KEY, _TRIM._replace(arguments=(*_TRIM.arguments, _POLICY_OF_TRIM))),
    history={"6.2.0": "Added trimming by MINID, and LIMIT.", "8.2.0": "Added KEEPREF, DELREF and ACKED."})

# fmt: on
