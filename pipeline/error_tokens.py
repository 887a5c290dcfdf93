"""A token at the start of each error, which stays when the text is improved: ``[REDIS_STREAMS.DATA_LOSS] 3 entries …``."""

from __future__ import annotations

from typing import ClassVar


class LabelledError(Exception):
    """An error whose text starts with a fixed token, by which alerts and retries can recognise it."""

    label: ClassVar[str]  # the token, in capitals; it never changes for a class

    def __str__(self) -> str:
        return f"[REDIS_STREAMS.{self.label}] {self.words}"

    @property
    def words(self) -> str:
        """The error's text without the token."""
        return str(self.args[0]) if self.args else ""
