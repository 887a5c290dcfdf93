"""What an audit says of a promise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

KEPT: Final = "kept"
BROKEN: Final = "broken"
NOT_TRIED: Final = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one promise.

    Attributes:
        name: of the promise.
        result: ``kept``, ``broken`` or ``not tried``.
        what: what happened, in one sentence; why it was not tried.
        evidence: what the audit did and what the worker sent, in order, with times of the server's clock.
        seconds: of real time.
    """

    name: str
    result: str
    what: str
    evidence: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in the JSON of an audit."""
        return asdict(self) | {"evidence": list(self.evidence), "seconds": round(self.seconds, 3)}


class Broken(Exception):  # noqa: N818 - a verdict, no error of the audit
    """The promise is broken; the text says what happened."""


class NotTried(Exception):  # noqa: N818 - likewise
    """The promise could not be observed; the text says why."""


class CannotRunError(RuntimeError):
    """The worker cannot be audited; the text says why, with its last lines."""


class Cancelled(BaseException):
    """The audit was interrupted."""
