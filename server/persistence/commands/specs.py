"""SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE: one record each."""

from __future__ import annotations

from ....commands.spec.command import Family
from ....commands.spec.grammar import switch

family = Family(__package__, "server")

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

SAVE = family.command("SAVE", arity=1, flags="admin noscript no_async_loading no_multi", since="1.0.0",
    summary="Writes the data to the dump file and waits for it.",
    complexity="O(N); N: keys of all databases")

BGSAVE = family.command("BGSAVE", arity=-1, flags="admin noscript no_async_loading", since="1.0.0",
    summary="Writes the data to the dump file in the background.",
    arguments=(switch("SCHEDULE", since="3.2.2"),),
    history={"3.2.2": "Added SCHEDULE."})

BGREWRITEAOF = family.command("BGREWRITEAOF", arity=1, flags="admin noscript no_async_loading",
    since="1.0.0",
    summary="Rewrites the append-only file in the background to the shortest that holds the data.")

LASTSAVE = family.command("LASTSAVE", arity=1, flags="loading stale fast", categories="admin dangerous",
    tips="nondeterministic_output", since="1.0.0",
    summary="Returns the time of the last successful save, or of the start.")

# fmt: on
