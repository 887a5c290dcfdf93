"""The transaction commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import MANY_KEYS
from ..spec.key_specs import at

family = Family(__package__, "transactions", categories="transaction")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

MULTI = family.command("MULTI", arity=1, flags="noscript loading stale fast allow_busy", since="1.2.0",
    summary="Begins a transaction: the commands that follow are queued.")

EXEC = family.command("EXEC", arity=1, flags="noscript loading stale skip_slowlog", since="1.2.0",
    summary="Runs the queued commands without interruption.",
    complexity="that of the queued commands")

DISCARD = family.command("DISCARD", arity=1, flags="noscript loading stale fast allow_busy", since="2.0.0",
    summary="Ends a transaction without running it.",
    complexity="O(N); N: commands queued")

WATCH = family.command("WATCH", arity=-2, flags="noscript loading stale fast allow_busy",
    keys=(at(1, "RO", last=-1),), since="2.2.0",
    summary="Makes the next EXEC fail if one of the keys is modified before it.",
    complexity="O(N); N: keys given",
    arguments=(MANY_KEYS,))

UNWATCH = family.command("UNWATCH", arity=1, flags="noscript loading stale fast allow_busy", since="2.2.0",
    summary="Forgets all watched keys.")

# fmt: on
