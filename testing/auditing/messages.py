"""The messages that an audit sends, good ones and bad ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

NUMBER: Final = "{n}"
_FIRST: Final = 73_001  # numbers that are unlikely to mean anything else in a worker's commands


@dataclass(frozen=True, slots=True)
class Message:
    """One message that an audit sends to the worker."""

    fields: dict[str, str]  # the fields of the entry
    sign: str  # the message's number, if the fields contain it; else ""


class Messages:
    """Creates messages from templates, each with a different number in place of ``{n}``.

    Args:
        templates: fields and values; message number ``i`` uses template ``i`` modulo their number.
        seed: changes the numbers.
    """

    def __init__(self, templates: Sequence[Mapping[str, str]] = (), seed: int = 0) -> None:
        self._templates = [dict(each) for each in templates] or [{"n": NUMBER}]
        self._seed = seed

    def good(self, index: int) -> Message:
        """Return a message that the worker under audit understands, a different one for each index."""
        template = self._templates[index % len(self._templates)]
        number = str(_FIRST + 1000 * (self._seed % 900) + index)
        fields = {name: value.replace(NUMBER, number) for name, value in template.items()}
        return Message(fields, number if fields != template else "")

    def bad(self) -> list[dict[str, str]]:
        """Return messages that the worker should not understand: one with wrong fields, one with bad values."""
        return [{"wrong": "x"}, dict.fromkeys(self._templates[0], "wrong")]


def parse(text: str) -> list[dict[str, str]]:
    """Parse templates from JSON: an object, an array of objects, or one object per line.

    A value that is not a string is sent as JSON.

    Raises ValueError: the text has another form.
    """
    try:
        found = json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        found = [json.loads(line) for line in lines]
    every = found if isinstance(found, list) else [found]
    if not every or not all(isinstance(each, dict) and each for each in every):
        raise ValueError("a message is a JSON object with at least one field")
    return [{name: _text(value) for name, value in each.items()} for each in every]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
