"""Errors of reading an append-only file as a ledger."""

from __future__ import annotations

from ..error_tokens import LabelledError


class LedgerError(LabelledError):
    """The ledger cannot be read, or would be wrong; the text says why and what to do."""

    label = "LEDGER_UNREADABLE"


class SplitError(LedgerError):
    """A piece of a file does not begin or end between two records, or the state there differs from the expected one."""

    label = "LEDGER_SPLIT"


class RowsLostError(LedgerError):
    """Files of the append-only folder were removed before the ledger had read them."""

    label = "LEDGER_ROWS_LOST"
