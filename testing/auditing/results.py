"""The result of an experiment, and the exceptions that end one early; ``running`` makes the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

KEPT: Final = "kept"
BROKEN: Final = "broken"
NOT_TRIED: Final = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one promise of the worker."""

    name: str  # the name of the promise
    result: str  # ``kept``, ``broken`` or ``not tried``
    what: str  # one sentence that says what happened, or why the promise was not tried
    # The actions of the audit and the commands of the worker, in order, with times of the server's clock.
    evidence: tuple[str, ...]
    seconds: float  # the duration in real time

    def as_json(self) -> dict[str, Any]:
        """Return the result as a dict for JSON; the seconds are rounded to milliseconds."""
        return asdict(self) | {"evidence": list(self.evidence), "seconds": round(self.seconds, 3)}


class Broken(Exception):  # noqa: N818 - a verdict, not an error of the audit
    """A worker has broken the promise of an experiment; the text says what happened."""


class NotTried(Exception):  # noqa: N818 - likewise
    """An experiment could not observe its promise; the text says why."""


class CannotRunError(RuntimeError):
    """The worker cannot be audited; the text says why, and ends with the last lines that the worker printed."""


class Cancelled(BaseException):
    """The audit was interrupted."""
