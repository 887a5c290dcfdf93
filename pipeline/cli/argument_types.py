"""Parse words of the command line, and show the parser's own text if a word is wrong."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def argument(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Wrap a parser for argparse, which would hide the text of its ValueError."""

    def parsed(word: str) -> Value:
        try:
            return read(word)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return parsed
