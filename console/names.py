"""Bytes for people: names and commands as redis-cli writes them, values as text that is cut; and words of commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ESCAPES: Final = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b", 0x22: '\\"', 0x5C: "\\\\"}
_BACK: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b"}
_QUOTED: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|([^\\]+|\\$)", re.DOTALL)
_BLANKS: Final = " \t\n\v\f\r"
# Blanks, a part in double quotes, the inside of single ones, where only the quote is escaped, or a part without quotes.
_PART: Final = re.compile(
    r"""([ \t\n\v\f\r]+)|("(?:\\.|[^"\\])*")|'((?:\\'|\\(?!')|[^'\\])*)'|([^ \t\n\v\f\r"']+)""", re.DOTALL
)
_SPECIAL: Final = re.compile(r"[\s\"'\\]")

VALUE_CHARACTERS: Final = 2_000
NAME_CHARACTERS: Final = 200


def quote(word: bytes) -> str:
    """Return a word as redis-cli takes it: plain where it can be, else in quotes with escapes.

    What it returns is printable, and ``unquote`` returns the same bytes again.
    """
    try:
        text = word.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable() and not _SPECIAL.search(text):
        return text
    if text and text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return '"' + "".join(_escape(byte) for byte in word) + '"'


def _escape(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")


def unquote(text: str) -> bytes:
    """Return the bytes of a word that was typed: all as it stands, unless it is in double quotes.

    Raises:
        ValueError: a quote that opens is not closed.
    """
    if not text.startswith('"'):
        return text.encode()
    if len(text) < 2 or not text.endswith('"'):
        raise ValueError(f"the quotes of {text} are not closed")
    parts: list[bytes] = []
    for byte, escaped, plain in _QUOTED.findall(text[1:-1]):
        if byte:
            parts.append(bytes([int(byte, 16)]))
        elif escaped:
            parts.append(_BACK.get(escaped, escaped.encode()))
        elif '"' in plain or plain == "\\":
            raise ValueError(f'{text} has a quote inside: write it as \\"')
        else:
            parts.append(plain.encode())
    return b"".join(parts)


def command_line(words: Iterable[bytes]) -> str:
    """Return a command as it is typed into redis-cli."""
    return " ".join(quote(word) for word in words)


def split_line(line: str) -> list[bytes]:
    """Return the words of a line that was typed, as redis-cli splits it: at ASCII blanks, with quotes also within a word.

    Raises:
        ValueError: quotes that are not closed, or a closing quote that no blank follows.
    """
    words: list[bytes] = []
    at = 0
    within = False  # a word
    while at < len(line):
        found = _PART.match(line, at)
        if found is None:
            raise ValueError("quotes are not closed")
        blanks, double, single, bare = found.groups()
        at = found.end()
        if blanks:
            within = False
            continue
        if bare is None and at < len(line) and line[at] not in _BLANKS:
            raise ValueError("a closing quote is followed by a space")
        if double is not None:
            part = unquote(double)
        else:
            part = (bare if bare is not None else single.replace("\\'", "'")).encode()
        if within:
            words[-1] += part
        else:
            words.append(part)
        within = True
    return words


def plain(text: str) -> str:
    """Return a text of a server without characters that are not printable: control characters, marks that turn its direction."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


@dataclass(frozen=True, slots=True)
class Value:
    """A value as a page shows it.

    Attributes:
        text: printable, at most ``VALUE_CHARACTERS`` long.
        size: of the whole value, in bytes.
        cut: whether ``text`` leaves out its end.
        binary: whether the value is no UTF-8, so that ``text`` is made of escapes.
    """

    text: str
    size: int
    cut: bool
    binary: bool


def value(raw: bytes, limit: int = VALUE_CHARACTERS) -> Value:
    """Return what a page shows of a value; only its beginning is looked at when it is long."""
    head = raw[: limit * 4]
    text, binary = _text(head, whole=len(head) == len(raw))
    cut = len(head) < len(raw) or len(text) > limit
    return Value(text[:limit], len(raw), cut, binary)


def _text(head: bytes, *, whole: bool) -> tuple[str, bool]:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A character that the cut has split makes no binary of a text.
        if whole or error.start < len(head) - 3:
            return "".join(_escape(byte) for byte in head), True
        text = head[: error.start].decode()
    return "".join(c if c.isprintable() or c in "\n\t" else _escape_character(c) for c in text), False


def _escape_character(character: str) -> str:
    return "".join(_escape(byte) for byte in character.encode())


def name(raw: bytes) -> str:
    """Return a name for a page: as ``quote``, cut in the middle of nothing but its end."""
    if len(raw) <= NAME_CHARACTERS:
        return quote(raw)
    text = quote(raw[:NAME_CHARACTERS])
    return f"{text} … ({len(raw):,} bytes)"


def ids_behind(words: Sequence[bytes], start: int) -> Sequence[bytes]:
    """Return the IDs behind the word IDS and their number; before ``start`` are names, which may be this word, too."""
    at = [word.upper() for word in words].index(b"IDS", start)
    return words[at + 2 : at + 2 + int(words[at + 1])]


def number_behind(words: Sequence[bytes], option: bytes, start: int) -> int | None:
    """Return the number of an option of a command, whose options begin at ``start``."""
    found = [after for word, after in pairwise(words[start:]) if word.upper() == option and after.isdigit()]
    return int(found[0]) if found else None


def whole_id(entry_id: bytes) -> bytes:
    """Return an ID with its sequence number, as replies write it."""
    milliseconds, _, sequence = entry_id.partition(b"-")
    return b"%d-%d" % (int(milliseconds), int(sequence or 0)) if milliseconds.isdigit() else entry_id
