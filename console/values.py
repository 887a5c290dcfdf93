"""Parse the typed words of a form or an address."""

from __future__ import annotations

from collections.abc import Mapping

from .names import unquote


class MissingError(ValueError):
    """Nothing was typed into a field; the text is its name."""


class Values:
    """The typed words of a form, parsed in redis-cli's syntax."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._typed = typed

    def text(self, name: str, default: str = "") -> str:
        """Return the typed text, without spaces around it."""
        return self._typed.get(name, "").strip() or default

    def word(self, name: str) -> bytes:
        """Return the bytes of a name. Raises ValueError: it is missing, or its quotes are not closed."""
        text = self.text(name)
        if not text:
            raise MissingError(name)
        return unquote(text)

    def number(self, name: str, default: int, least: int = 0) -> int:
        """Return a typed whole number, ``default`` if nothing is typed.

        Raises ValueError: it is none, or below ``least``.
        """
        text = self.text(name, str(default))
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise ValueError(f"{name} is a whole number from {least} on, not {text}")
        return int(text)

    def ids(self, name: str = "id") -> list[bytes]:
        """Return typed IDs, separated by spaces or commas.

        Raises ValueError: there is none, or one has another form.
        """
        found = self.text(name).replace(",", " ").split()
        if not found:
            raise MissingError(name)
        for entry_id in found:
            if not all(part.isdecimal() for part in entry_id.split("-", 1)):
                raise ValueError(f"{entry_id} is not an ID: an ID is milliseconds-sequence")
        return [entry_id.encode() for entry_id in found]
