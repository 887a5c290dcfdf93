"""The syntax of the commands about replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import (
    integer,
)

if TYPE_CHECKING:
    from ..spec.grammar import Tree

WAIT: Tree = (integer("numreplicas"), integer("timeout"))


WAITAOF: Tree = (integer("numlocal"), integer("numreplicas"), integer("timeout"))
