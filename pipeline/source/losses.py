"""What was lost before a query read it, and what a query does about it."""

from __future__ import annotations

import logging
from typing import Final

from ..error_tokens import LabelledError

LOG: Final = logging.getLogger("rillet.pipeline")


class DataLossError(LabelledError, RuntimeError):
    """Entries were trimmed or deleted before they were read, or the stream is another one than before."""

    label = "DATA_LOSS"


def report_loss(what: str, *, fail: bool, otherwise: str = "goes on without them") -> None:
    """Stop, or go on and say so.

    Args:
        what: happened.
        fail: option failOnDataLoss.
        otherwise: what a query does that does not stop.

    Raises:
        DataLossError: ``fail`` is set.
    """
    if fail:
        raise DataLossError(f"{what}; option failOnDataLoss=false {otherwise}")
    LOG.warning("%s; the query %s", what, otherwise)
