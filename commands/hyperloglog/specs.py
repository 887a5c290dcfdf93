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
    complexity="O(N); N: elements given",
    arguments=(KEY, optional(many(string("element")))))

PFCOUNT = family.read("PFCOUNT", arity=-2, flags="may_replicate",
    keys=(at(1, "RW access", last=-1,
            notes="it may write the cached count into the value"),),
    since="2.8.9",
    summary="Returns about how many different elements were added to one HyperLogLog, or to any of several.",
    complexity="O(K); K: keys given; the result of one key is cached",
    arguments=(MANY_KEYS,))

PFMERGE = family.write("PFMERGE", arity=-2, flags="denyoom",
    keys=(at(1, "RW access insert"), at(2, "RO access", last=-1)), since="2.8.9",
    summary="Merges other HyperLogLogs into one.",
    complexity="O(K); K: keys given",
    arguments=(key("destkey"), optional(many(key("sourcekey", spec=1)))))

# fmt: on
