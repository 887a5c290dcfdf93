"""The syntax of the HyperLogLog commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, MANY_KEYS, key, many, optional, string

if TYPE_CHECKING:
    from ..spec.grammar import Tree

PFADD: Tree = (
    KEY,
    optional(many(string("element"))),
)
PFCOUNT: Tree = (MANY_KEYS,)
PFMERGE: Tree = (
    key("destkey"),
    optional(many(key("sourcekey", spec=1))),
)
