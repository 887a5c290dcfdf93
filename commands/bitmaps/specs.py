"""The syntax of the bitmap commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, block, integer, key, many, oneof, optional, string, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_UNIT = optional(oneof("unit", token("BYTE"), token("BIT"), since="7.0.0"))
_ENCODING = string("encoding")
_OFFSET = integer("offset")
_GET = block("get-block", _ENCODING, _OFFSET, after="GET")

SETBIT: Tree = (KEY, integer("offset"), integer("value"))
GETBIT: Tree = (KEY, integer("offset"))
BITCOUNT: Tree = (KEY, optional(block("range", integer("start"), integer("end"), _UNIT)))
BITCOUNT_HISTORY: History = (("7.0.0", "Added BYTE and BIT."),)
BITPOS: Tree = (
    KEY,
    integer("bit"),
    optional(
        block("range", integer("start"), optional(block("end-unit-block", integer("end"), _UNIT))),
    ),
)
BITPOS_HISTORY: History = BITCOUNT_HISTORY
BITOP: Tree = (
    oneof(
        "operation",
        token("AND"),
        token("OR"),
        token("XOR"),
        token("NOT"),
        token("DIFF", since="8.2.0"),
        token("DIFF1", since="8.2.0"),
        token("ANDOR", since="8.2.0"),
        token("ONE", since="8.2.0"),
    ),
    key("destkey"),
    many(key("key", spec=1)),
)
BITOP_HISTORY: History = (("8.2.0", "Added DIFF, DIFF1, ANDOR and ONE."),)
BITFIELD: Tree = (
    KEY,
    optional(
        many(
            oneof(
                "operation",
                _GET,
                block(
                    "write",
                    optional(
                        oneof("overflow-block", token("WRAP"), token("SAT"), token("FAIL"), after="OVERFLOW")
                    ),
                    oneof(
                        "write-operation",
                        block("set-block", _ENCODING, _OFFSET, integer("value"), after="SET"),
                        block("incrby-block", _ENCODING, _OFFSET, integer("increment"), after="INCRBY"),
                    ),
                ),
            )
        )
    ),
)
BITFIELD_RO: Tree = (KEY, optional(many(_GET, with_token=True)))
