"""The error of failOnDataLoss, and the choice between it and a warning.

Group mode and tasks also raise the error themselves.
"""

from __future__ import annotations

import logging
from typing import Final

from ..error_tokens import LabelledError

LOG: Final = logging.getLogger("rillet.pipeline")


class DataLossError(LabelledError, RuntimeError):
    """Entries were trimmed or deleted before they were read, or the stream has another history."""

    label = "DATA_LOSS"


def report_loss(what: str, *, fail: bool, otherwise: str = "goes on without them") -> None:
    """Stop the query, or log the loss and continue.

    Raises DataLossError: ``fail`` is set.
    ``otherwise``: what the query does if it continues.
    """
    if fail:
        raise DataLossError(f"{what}; option failOnDataLoss=false {otherwise}")
    LOG.warning("%s; the query %s", what, otherwise)
