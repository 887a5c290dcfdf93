"""The log of a test server, kept for the test and passed on to the logging module."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from ..protocol.regex import regex

_LINE: Final = regex(r"\d+:[A-Z] \S+ \S+ \S+ \S+ ([.\-*#]) (.*)")
_LEVELS: Final = {".": logging.DEBUG, "-": logging.DEBUG, "*": logging.INFO, "#": logging.WARNING}
_KEPT: Final = 1000

logger: Final = logging.getLogger("rillet")
# Without a handler, logging would print warnings if nothing is configured.
logger.addHandler(logging.NullHandler())


def escaped(text: str) -> str:
    """Replace lone surrogates by backslash escapes: pytest-xdist cannot send them."""
    return text.encode(errors="backslashreplace").decode()


class ServerLog:
    """The last lines of one server's log; each goes to the logger ``rillet``, too.

    ``debug`` and ``verbose`` become DEBUG, ``notice`` INFO, ``warning`` WARNING.
    """

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT)  # the last 1000 lines as the server wrote them
        self.count = 0  # number of lines ever
        self._level = logging.INFO

    def feed(self, text: str) -> None:
        """Add one or more lines; a line without a stamp (of a traceback) has the level of the line before it.

        Bytes that are not UTF-8 are escaped.
        """
        for line in escaped(text).splitlines():
            if not line.strip():
                continue
            self.lines.append(line)
            self.count += 1
            found = _LINE().fullmatch(line)
            if found:
                self._level = _LEVELS[found[1]]
            logger.log(self._level, "%s", found[2] if found else line)

    def text(self, since: int = 0) -> str:
        """Return the lines after the first ``since`` lines ever logged, joined by newlines, as far as they are kept."""
        kept = list(self.lines)
        return "\n".join(kept[max(0, since - self.count + len(kept)) :])
