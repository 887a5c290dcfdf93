"""What can be wrong with an append-only file that is read as a ledger."""

from __future__ import annotations

from ..error_tokens import LabelledError


class LedgerError(LabelledError):
    """The ledger can not be read, or would be wrong; the text says why and what to do."""

    label = "LEDGER_UNREADABLE"


class SplitError(LedgerError):
    """A place taken for the beginning of a record was none, or was reached in another state than foreseen."""

    label = "LEDGER_SPLIT"


class RowsLostError(LedgerError):
    """Files are gone that were not read yet."""

    label = "LEDGER_ROWS_LOST"
