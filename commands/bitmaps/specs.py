"""The bitmap commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import KEY, block, integer, key, many, oneof, optional, silent, string, token
from ..spec.key_specs import CHANGES, READS, at

family = Family(__package__, "bitmap", categories="bitmap")

_UNIT = optional(oneof("unit", token("BYTE"), token("BIT"), since="7.0.0"))
_ENCODING = string("encoding")
_OFFSET = integer("offset")
_GET = block("get-block", _ENCODING, _OFFSET, after="GET")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

BITFIELD = family.write("BITFIELD", arity=-2, flags="denyoom",
    keys=(at(1, "RW access update variable_flags",
            notes="its operations read and write"),), since="3.2.0",
    summary="Reads and changes integers of any width in the string at a key.",
    complexity="O(N); N: operations given",
    arguments=(KEY,
        optional(many(oneof("operation", _GET,
                    block("write",
                        optional(oneof("overflow-block", token("WRAP"), token("SAT"), token("FAIL"),
                                after="OVERFLOW")),
                        oneof("write-operation",
                            block("set-block", _ENCODING, _OFFSET, integer("value"), after="SET"),
                            block("incrby-block", _ENCODING, _OFFSET, integer("increment"),
                                after="INCRBY"))))))))

BITFIELD_RO = family.read("BITFIELD_RO", arity=-2, flags="fast", keys=READS, since="6.0.0",
    summary="Reads integers of any width from the string at a key.",
    complexity="O(N); N: operations given",
    arguments=(KEY, optional(many(_GET, with_token=True))))

SETBIT = family.write("SETBIT", arity=4, flags="denyoom", keys=CHANGES, since="2.2.0",
    summary="Sets or clears a bit of the string at a key; creates the key if it is missing.",
    arguments=(KEY, integer("offset"), integer("value")))

GETBIT = family.read("GETBIT", arity=3, flags="fast", keys=READS, since="2.2.0",
    summary="Returns a bit of the string at a key.",
    arguments=(KEY, integer("offset")))

BITCOUNT = family.read("BITCOUNT", arity=-2, keys=READS, since="2.6.0",
    summary="Counts the bits that are set in the string at a key.",
    complexity="O(N); N: bytes of the value",
    arguments=(KEY, optional(block("range", integer("start"), integer("end"), _UNIT))),
    history={"7.0.0": "Added BYTE and BIT."})

BITPOS = family.read("BITPOS", arity=-3, keys=READS, since="2.8.7",
    summary="Finds the first bit that is set, or clear, in the string at a key.",
    complexity="O(N); N: bytes of the value",
    arguments=(KEY, integer("bit"),
        optional(block("range", integer("start"), optional(block("end-unit-block", integer("end"), _UNIT))))),
    history={"7.0.0": "Added BYTE and BIT."})

BITOP = family.write("BITOP", arity=-4, flags="denyoom",
    keys=(at(2, "OW update"), at(3, "RO access", last=-1)), since="2.6.0",
    summary="Combines strings bit by bit and stores the result.",
    complexity="O(N); N: bytes of the value",
    arguments=(oneof("operation", token("AND"), token("OR"), token("XOR"), token("NOT"),
            *(silent(token(word, since="8.2.0")) for word in ("DIFF", "DIFF1", "ANDOR", "ONE"))), key("destkey"), many(key("key", spec=1))))

# fmt: on
