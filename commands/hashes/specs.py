"""The hash commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
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
from ..spec.key_specs import CHANGES, DELETES, INSERTS, INSPECTS, READS, TAKES, UPDATES, at

family = Family(
    __package__,
    "hash",
    categories="hash",
    modules={
        "field_expiry": "hexpire hexpireat hexpiretime hpersist hpexpire hpexpireat hpexpiretime hpttl httl",
        "fields": "hdel hexists hget hgetall hincrby hkeys hlen hmget hmset hset hsetnx hstrlen hvals",
        "hgetex": "hgetdel hgetex hsetex",
        "himport": "himport",
        "hincrbyfloat": "hincrbyfloat",
        "hscan": "hrandfield hscan",
    },
)

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
_FIELDS_COST = "O(N); N: fields given"
_HASH_COST = "O(N); N: fields of the hash"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

HEXPIRE = family.write("HEXPIRE", arity=-6, flags="fast", keys=UPDATES, since="7.4.0",
    summary="Sets the expiry of fields of a hash, in seconds from now.",
    complexity=_FIELDS_COST,
    arguments=(KEY, integer("seconds"), _CONDITION, _FIELDS))

HPEXPIRE = family.write("HPEXPIRE", arity=-6, flags="fast", keys=UPDATES, since="7.4.0",
    summary="Sets the expiry of fields of a hash, in milliseconds from now.",
    complexity=_FIELDS_COST,
    arguments=(KEY, integer("milliseconds"), _CONDITION, _FIELDS))

HEXPIREAT = family.write("HEXPIREAT", arity=-6, flags="fast", keys=UPDATES, since="7.4.0",
    summary="Sets the expiry of fields of a hash to a Unix time in seconds.",
    complexity=_FIELDS_COST,
    arguments=(KEY, unix_time("unix-time-seconds"), _CONDITION, _FIELDS))

HPEXPIREAT = family.write("HPEXPIREAT", arity=-6, flags="fast", keys=UPDATES, since="7.4.0",
    summary="Sets the expiry of fields of a hash to a Unix time in milliseconds.",
    complexity=_FIELDS_COST,
    arguments=(KEY, unix_time("unix-time-milliseconds"), _CONDITION, _FIELDS))

HTTL = family.read("HTTL", arity=-5, flags="fast", keys=READS, tips="nondeterministic_output", since="7.4.0",
    summary="Returns how many seconds fields of a hash have to live.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HPTTL = family.read("HPTTL", arity=-5, flags="fast", keys=READS, tips="nondeterministic_output", since="7.4.0",
    summary="Returns how many milliseconds fields of a hash have to live.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HEXPIRETIME = family.read("HEXPIRETIME", arity=-5, flags="fast", keys=READS, since="7.4.0",
    summary="Returns the Unix times in seconds at which fields of a hash expire.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HPEXPIRETIME = family.read("HPEXPIRETIME", arity=-5, flags="fast", keys=READS, since="7.4.0",
    summary="Returns the Unix times in milliseconds at which fields of a hash expire.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HPERSIST = family.write("HPERSIST", arity=-5, flags="fast", keys=UPDATES, since="7.4.0",
    summary="Removes the expiry of fields of a hash.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HSET = family.write("HSET", arity=-4, flags="denyoom fast", keys=UPDATES, since="2.0.0",
    summary="Sets fields of a hash; creates the hash if it is missing.",
    complexity="O(N); N: fields given",
    arguments=(KEY, _PAIRS),
    history={"4.0.0": "Allowed more than one field and value."})

HMSET = family.write("HMSET", arity=-4, flags="denyoom fast", keys=UPDATES, since="2.0.0",
    doc_flags="deprecated", deprecated_since="4.0.0", replaced_by="`HSET` with multiple field-value pairs",
    summary="Sets fields of a hash; creates the hash if it is missing.",
    complexity="O(N); N: fields given",
    arguments=(KEY, _PAIRS))

HSETNX = family.write("HSETNX", arity=4, flags="denyoom fast", keys=INSERTS, since="2.0.0",
    summary="Sets a field of a hash if the field is missing.",
    arguments=(KEY, _FIELD, string("value")))

HGET = family.read("HGET", arity=3, flags="fast", keys=READS, since="2.0.0",
    summary="Returns the value of a field of a hash.",
    arguments=(KEY, _FIELD))

HMGET = family.read("HMGET", arity=-3, flags="fast", keys=READS, since="2.0.0",
    summary="Returns the values of fields of a hash.",
    complexity="O(N); N: fields given",
    arguments=(KEY, many(_FIELD)))

HGETALL = family.read("HGETALL", arity=2, keys=READS, tips="nondeterministic_output_order", since="2.0.0",
    summary="Returns all fields of a hash with their values.",
    complexity=_HASH_COST,
    arguments=(KEY,))

HKEYS = family.read("HKEYS", arity=2, keys=READS, tips="nondeterministic_output_order", since="2.0.0",
    summary="Returns all fields of a hash.",
    complexity=_HASH_COST,
    arguments=(KEY,))

HVALS = family.read("HVALS", arity=2, keys=READS, tips="nondeterministic_output_order", since="2.0.0",
    summary="Returns all values of a hash.",
    complexity=_HASH_COST,
    arguments=(KEY,))

HLEN = family.read("HLEN", arity=2, flags="fast", keys=INSPECTS, since="2.0.0",
    summary="Returns the number of fields of a hash.",
    arguments=(KEY,))

HEXISTS = family.read("HEXISTS", arity=3, flags="fast", keys=INSPECTS, since="2.0.0",
    summary="Checks whether a hash has a field.",
    arguments=(KEY, _FIELD))

HSTRLEN = family.read("HSTRLEN", arity=3, flags="fast", keys=INSPECTS, since="3.2.0",
    summary="Returns the length of the value of a field of a hash.",
    arguments=(KEY, _FIELD))

HDEL = family.write("HDEL", arity=-3, flags="fast", keys=DELETES, since="2.0.0",
    summary="Deletes fields of a hash, and the hash with the last of them.",
    complexity="O(N); N: fields given",
    arguments=(KEY, many(_FIELD)),
    history={"2.4.0": "Allowed more than one field."})

HINCRBY = family.write("HINCRBY", arity=4, flags="denyoom fast", keys=CHANGES, since="2.0.0",
    summary="Adds to the integer in a field of a hash; creates hash and field if they are missing.",
    arguments=(KEY, _FIELD, integer("increment")))

HINCRBYFLOAT = family.write("HINCRBYFLOAT", arity=4, flags="denyoom fast", keys=CHANGES, since="2.6.0",
    summary="Adds to the floating point number in a field of a hash; creates hash and field if they are "
        "missing.",
    arguments=(KEY, _FIELD, double("increment")))

HGETEX = family.write("HGETEX", arity=-5, flags="fast",
    keys=(at(1, "RW access update", notes="it may change when the fields expire"),), since="8.0.0",
    summary="Returns the values of fields of a hash and sets or removes their expiry.",
    complexity=_FIELDS_COST,
    arguments=(KEY, optional(oneof("expiration", *_TIMES, token("PERSIST"))), _FIELDS))

HSETEX = family.write("HSETEX", arity=-6, flags="denyoom fast", keys=UPDATES, since="8.0.0",
    summary="Sets fields of a hash and their expiry; creates the hash if it is missing.",
    complexity="O(N); N: fields given",
    arguments=(KEY, optional(oneof("condition", token("FNX"), token("FXX"))),
        optional(oneof("expiration", *_TIMES, token("KEEPTTL"))),
        block("fields", integer("numfields"), _PAIRS, after="FIELDS")))

HGETDEL = family.write("HGETDEL", arity=-5, flags="fast", keys=TAKES, since="8.0.0",
    summary="Returns the values of fields of a hash and deletes the fields.",
    complexity=_FIELDS_COST,
    arguments=(KEY, _FIELDS))

HIMPORT = family.container("HIMPORT", categories="hash", since="8.10.0",
    summary="Groups the commands that make many hashes of the same fields.")

HIMPORT_PREPARE = family.command("HIMPORT|PREPARE", arity=-4, flags="denyoom",
    tips="request_policy:all_shards", since="8.10.0",
    summary="Gives a name to a list of fields, for this connection.",
    complexity="O(N*log(N)); N: fields given",
    arguments=(string("fieldset-name"), many(_FIELD)))

HIMPORT_SET = family.write("HIMPORT|SET", arity=-5, flags="denyoom", keys=(at(2, "OW update"),),
    since="8.10.0",
    summary="Creates a hash of prepared fields and the given values, in place of any hash at the key.",
    complexity="O(N); N: fields of the fieldset",
    arguments=(KEY, string("fieldset-name"), many(string("value"))))

HIMPORT_DISCARD = family.command("HIMPORT|DISCARD", arity=3, tips="request_policy:all_shards",
    since="8.10.0",
    summary="Forgets a list of fields that this connection prepared.",
    complexity="O(N); N: fieldsets",
    arguments=(string("fieldset-name"),))

HIMPORT_DISCARDALL = family.command("HIMPORT|DISCARDALL", arity=2, tips="request_policy:all_shards",
    since="8.10.0",
    summary="Forgets all lists of fields that this connection prepared.",
    complexity="O(N); N: fieldsets")

HSCAN = family.read("HSCAN", arity=-3, keys=READS, tips="nondeterministic_output", since="2.8.0",
    summary="Walks over the fields of a hash, some at a time.",
    complexity="O(C), and O(N) until the cursor is 0 again; C: COUNT, N: all elements",
    arguments=(KEY, integer("cursor"), optional(pattern("pattern", "MATCH")),
        optional(integer("count", "COUNT")), switch("NOVALUES")))

HRANDFIELD = family.read("HRANDFIELD", arity=-2, keys=READS, tips="nondeterministic_output", since="6.2.0",
    summary="Returns random fields of a hash.",
    complexity="O(N); N: fields returned",
    arguments=(KEY, optional(block("options", integer("count"), switch("WITHVALUES")))))

# fmt: on
