"""Count the data in an RDB file that only Rillet can read, for the log."""

from __future__ import annotations

from collections import Counter


class Unsaid:
    """Counts the data in a file that only Rillet can read, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # number of items by the name of their kind in the log

    @property
    def text(self) -> str:
        """The counts as a list for the log; empty if there are none."""
        return ", ".join(f"{number} {name}" for name, number in self.counts.items() if number)
