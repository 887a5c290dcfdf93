"""Words of the command line as values, with the reader's own text where a word is wrong."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")


def argument(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a reader that raises ValueError as a type of argparse, which would leave out the text of that error."""

    def parsed(word: str) -> Value:
        try:
            return read(word)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return parsed
