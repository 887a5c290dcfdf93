"""The record of DEBUG."""

from __future__ import annotations

from ....commands.spec.command import Family

family = Family(__package__, "server", modules={"handlers": "debug"})

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

DEBUG = family.command("DEBUG", arity=-2, flags="admin noscript loading stale protected", since="1.0.0",
    doc_flags="syscmd",
    summary="Groups the commands for debugging.",
    complexity="that of the subcommand")

# fmt: on
