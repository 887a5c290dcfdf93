"""What the version of a file has no place for: only Rillet reads it there, in fields that other servers skip."""

from __future__ import annotations

from collections import Counter


class Unsaid:
    """Counts what other servers do not find in a file of a version.

    Attributes:
        counts: by its name in the log.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @property
    def text(self) -> str:
        """The counts as a list for the log, empty without any."""
        return ", ".join(f"{number} {name}" for name, number in self.counts.items() if number)
