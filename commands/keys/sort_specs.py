"""The syntax of SORT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, block, integer, key, many, oneof, optional, pattern, switch, token

if TYPE_CHECKING:
    from ..spec.grammar import Tree

SORT_RO: Tree = (
    KEY,
    optional(pattern("by-pattern", "BY", spec=1, display="pattern")),
    optional(block("limit", integer("offset"), integer("count"), after="LIMIT")),
    optional(many(pattern("get-pattern", "GET", spec=1, display="pattern"), with_token=True)),
    optional(oneof("order", token("ASC"), token("DESC"))),
    switch("ALPHA", name="sorting"),
)
SORT: Tree = (*SORT_RO, optional(key("destination", "STORE", spec=2)))
