"""The HyperLogLog commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import KEY, MANY_KEYS, key, many, optional, string
from ..spec.key_specs import INSERTS, at

family = Family(__package__, "hyperloglog", categories="hyperloglog")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

PFADD = family.write("PFADD", arity=-2, flags="denyoom fast", keys=INSERTS, since="2.8.9",
    summary="Adds elements to a HyperLogLog; creates it if the key is missing.",
    complexity="O(1) to add every element.",
    arguments=(KEY, optional(many(string("element")))))

PFCOUNT = family.read("PFCOUNT", arity=-2, flags="may_replicate",
    keys=(at(1, "RW access", last=-1,
            notes="RW because it may change the internal representation of the key, and propagate to replicas"),),
    since="2.8.9",
    summary="Returns about how many different elements were added to one HyperLogLog, or to any of several.",
    complexity="O(1) with a very small average constant time when called with a single key. O(N) with N being "
        "the number of keys, and much bigger constant times, when called with multiple keys.",
    arguments=(MANY_KEYS,))

PFMERGE = family.write("PFMERGE", arity=-2, flags="denyoom",
    keys=(at(1, "RW access insert"), at(2, "RO access", last=-1)), since="2.8.9",
    summary="Merges other HyperLogLogs into one.",
    complexity="O(N) to merge N HyperLogLogs, but with high constant times.",
    arguments=(key("destkey"), optional(many(key("sourcekey", spec=1)))))

# fmt: on
