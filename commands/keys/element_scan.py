"""The shared part of HSCAN, SSCAN and ZSCAN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...protocol.globs import matcher
from ..runtime.arguments import Arguments, parse_integer

_DEFAULT_COUNT: Final = 10
# The reply for a missing key: the iteration is complete.
EMPTY: Final = b"*2\r\n$1\r\n0\r\n*0\r\n"
ONLY_HSCAN: Final = b"ERR NOVALUES option can only be used in HSCAN"


class ScanOptions:
    """The parsed options that follow the cursor of HSCAN, SSCAN or ZSCAN.

    ``novalues``: whether NOVALUES is allowed; None: the option is unknown.
    """

    __slots__ = ("count", "matches", "names_only")

    def __init__(self, words: list[bytes], *, novalues: bool | None) -> None:
        self.count = _DEFAULT_COUNT  # how many elements to examine
        # Returns whether an element matches the pattern; None without MATCH.
        self.matches: Callable[[bytes], object] | None = None
        self.names_only = False  # NOVALUES was given
        options = Arguments(words, 3)
        while options:
            option = options.option()
            if option == b"NOVALUES" and novalues is not None:
                if not novalues:
                    raise ReplyError(ONLY_HSCAN)
                self.names_only = True
                continue
            value = options.next()
            if option == b"COUNT":
                self.count = parse_integer(value)
                if self.count < 1:
                    raise ReplyError(SYNTAX)
            elif option == b"MATCH":
                self.matches = None if value == b"*" else matcher(value)
            else:
                raise ReplyError(SYNTAX)


def page(cursor: int, elements: Sequence[bytes]) -> bytes:
    """Encode the reply of HSCAN, SSCAN or ZSCAN, one page of elements: ``[next cursor, [elements]]``."""
    return b"*2\r\n" + replies.bulk(b"%d" % cursor) + replies.bulk_array(elements)
