"""A word in each error that stays the same when its text is improved: ``[REDIS_STREAMS.DATA_LOSS] 3 entries …``."""

from __future__ import annotations

from typing import ClassVar


class LabelledError(Exception):
    """An error whose text begins with its token; alerts and retries can look for that.

    Attributes:
        label: the token, in capitals; a class keeps it for good.
    """

    label: ClassVar[str]

    def __str__(self) -> str:
        return f"[REDIS_STREAMS.{self.label}] {self.words}"

    @property
    def words(self) -> str:
        """What happened, without the token."""
        return str(self.args[0]) if self.args else ""
