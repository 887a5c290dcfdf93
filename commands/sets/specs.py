"""The set commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import KEY, MANY_KEYS, integer, key, many, optional, pattern, string, switch
from ..spec.key_specs import DELETES, INSERTS, INSPECTS, READS, TAKES, KeySpec, at

family = Family(
    __package__,
    "set",
    categories="set",
    modules={
        "algebra": "sdiff sdiffcard sdiffstore sinter sintercard sinterstore sunion sunioncard sunionstore",
        "members": "sadd scard sismember smembers smismember smove spop srandmember srem",
        "sscan": "sscan",
    },
)

_INTERSECTION_COST = "O(N*K); N: members of the smallest set, K: sets"
_UNION_COST = "O(N); N: members of all sets"

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

SINTER = family.read("SINTER", arity=-2, keys=(at(1, "RO access", last=-1),),
    tips="nondeterministic_output_order", since="1.0.0",
    summary="Returns the members that all sets have.",
    complexity=_INTERSECTION_COST,
    arguments=(MANY_KEYS,))

SINTERSTORE = family.write("SINTERSTORE", arity=-3, flags="denyoom",
    keys=(at(1, "OW update"), at(2, "RO access", last=-1)), since="1.0.0",
    summary="Stores the members that all sets have as another set.",
    complexity=_INTERSECTION_COST,
    arguments=(key("destination"), many(key("key", spec=1))))

SUNION = family.read("SUNION", arity=-2, keys=(at(1, "RO access", last=-1),),
    tips="nondeterministic_output_order", since="1.0.0",
    summary="Returns the members that any of the sets has.",
    complexity=_UNION_COST,
    arguments=(MANY_KEYS,))

SUNIONSTORE = family.write("SUNIONSTORE", arity=-3, flags="denyoom",
    keys=(at(1, "OW update"), at(2, "RO access", last=-1)), since="1.0.0",
    summary="Stores the members that any of the sets has as another set.",
    complexity=_UNION_COST,
    arguments=(key("destination"), many(key("key", spec=1))))

SDIFF = family.read("SDIFF", arity=-2, keys=(at(1, "RO access", last=-1),),
    tips="nondeterministic_output_order", since="1.0.0",
    summary="Returns the members of the first set that no other set has.",
    complexity=_UNION_COST,
    arguments=(MANY_KEYS,))

SDIFFSTORE = family.write("SDIFFSTORE", arity=-3, flags="denyoom",
    keys=(at(1, "OW update"), at(2, "RO access", last=-1)), since="1.0.0",
    summary="Stores the members of the first set that no other set has as another set.",
    complexity=_UNION_COST,
    arguments=(key("destination"), many(key("key", spec=1))))

SINTERCARD = family.read("SINTERCARD", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="7.0.0",
    summary="Counts the members that all sets have.",
    complexity=_INTERSECTION_COST,
    arguments=(integer("numkeys"), MANY_KEYS, optional(integer("limit", "LIMIT"))))

SUNIONCARD = family.read("SUNIONCARD", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="8.10.0",
    summary="Counts the members that any of the sets has.",
    complexity=_UNION_COST,
    arguments=(integer("numkeys"), MANY_KEYS, switch("APPROX"), optional(integer("limit", "LIMIT"))))

SDIFFCARD = family.read("SDIFFCARD", arity=-3, flags="movablekeys",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),), since="8.10.0",
    summary="Counts the members of the first set that no other set has.",
    complexity=_UNION_COST,
    arguments=(integer("numkeys"), MANY_KEYS, optional(integer("limit", "LIMIT"))))

SADD = family.write("SADD", arity=-3, flags="denyoom fast", keys=INSERTS, since="1.0.0",
    summary="Adds members to a set; creates the set if it is missing.",
    complexity="O(N); N: elements given",
    arguments=(KEY, many(string("member"))),
    history={"2.4.0": "Several members at once."})

SREM = family.write("SREM", arity=-3, flags="fast", keys=DELETES, since="1.0.0",
    summary="Removes members from a set.",
    complexity="O(N); N: members given",
    arguments=(KEY, many(string("member"))),
    history={"2.4.0": "Several members at once."})

SMOVE = family.write("SMOVE", arity=4, flags="fast", keys=(at(1, "RW access delete"), at(2, "RW insert")),
    since="1.0.0",
    summary="Moves a member from a set to another set.",
    arguments=(key("source"), key("destination", spec=1), string("member")))

SISMEMBER = family.read("SISMEMBER", arity=3, flags="fast", keys=INSPECTS, since="1.0.0",
    summary="Checks whether a set has a member.",
    arguments=(KEY, string("member")))

SMISMEMBER = family.read("SMISMEMBER", arity=-3, flags="fast", keys=READS, since="6.2.0",
    summary="Checks for each of several members whether a set has it.",
    complexity="O(N); N: members given",
    arguments=(KEY, many(string("member"))))

SCARD = family.read("SCARD", arity=2, flags="fast", keys=INSPECTS, since="1.0.0",
    summary="Returns the number of members of a set.",
    arguments=(KEY,))

SMEMBERS = family.read("SMEMBERS", arity=2, keys=READS, tips="nondeterministic_output_order", since="1.0.0",
    summary="Returns the members of a set.",
    complexity="O(N); N: members of the set",
    arguments=(KEY,))

SPOP = family.write("SPOP", arity=-2, flags="fast", keys=TAKES, tips="nondeterministic_output",
    since="1.0.0",
    summary="Removes random members and returns them; deletes the set with its last member.",
    complexity="O(N); N: members popped",
    arguments=(KEY, optional(integer("count", since="3.2.0"))),
    history={"3.2.0": "Added count."})

SRANDMEMBER = family.read("SRANDMEMBER", arity=-2, keys=READS, tips="nondeterministic_output", since="1.0.0",
    summary="Returns random members.",
    complexity="O(N); N: members returned",
    arguments=(KEY, optional(integer("count", since="2.6.0"))),
    history={"2.6.0": "Added count."})

SSCAN = family.read("SSCAN", arity=-3, keys=READS, tips="nondeterministic_output", since="2.8.0",
    summary="Walks over the members of a set, some at a time.",
    complexity="O(C), and O(N) until the cursor is 0 again; C: COUNT, N: all elements",
    arguments=(KEY, integer("cursor"), optional(pattern("pattern", "MATCH")),
        optional(integer("count", "COUNT"))))

# fmt: on
