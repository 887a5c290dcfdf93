"""The syntax of MULTI and its companions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import MANY_KEYS, NONE

if TYPE_CHECKING:
    from ..spec.grammar import Tree

MULTI: Tree = NONE
EXEC: Tree = NONE
DISCARD: Tree = NONE
WATCH: Tree = (MANY_KEYS,)
UNWATCH: Tree = NONE
