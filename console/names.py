"""Convert bytes to text for people: names and commands in redis-cli's syntax, values cut."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ESCAPES: Final = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b", 0x22: '\\"', 0x5C: "\\\\"}
_BACK: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b"}
_QUOTED: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|([^\\]+|\\$)", re.DOTALL)
_BLANKS: Final = " \t\n\v\f\r"
# Spaces; a part in double quotes; a part in single quotes, where only the quote can be escaped; or a part without
# quotes.
_PART: Final = re.compile(
    r"""([ \t\n\v\f\r]+)|("(?:\\.|[^"\\])*")|'((?:\\'|\\(?!')|[^'\\])*)'|([^ \t\n\v\f\r"']+)""", re.DOTALL
)
_SPECIAL: Final = re.compile(r"[\s\"'\\]")

VALUE_CHARACTERS: Final = 2_000
NAME_CHARACTERS: Final = 200


def quote(word: bytes) -> str:
    """Return a word in redis-cli's syntax: plain if possible, else in quotes with escapes.

    The result is printable, and ``unquote`` returns the same bytes.
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
    """Return the bytes of a typed word: literally, unless it is in double quotes.

    Raises ValueError: a quote is not closed.
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
    """Return a command in redis-cli's syntax."""
    return " ".join(quote(word) for word in words)


def split_line(line: str) -> list[bytes]:
    """Return the words of a typed line, split as redis-cli does: at ASCII spaces; quotes may also be within a word.

    Raises ValueError: a quote is not closed, or no space follows a closing quote.
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
    """Return a server's text without unprintable characters: control characters, and marks that change its direction."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


@dataclass(frozen=True, slots=True)
class Value:
    """A value as a page shows it."""

    text: str  # printable, at most ``VALUE_CHARACTERS`` long
    size: int  # bytes of the whole value
    cut: bool  # whether ``text`` lacks its end
    binary: bool  # whether the value is not UTF-8, so that ``text`` consists of escapes


def value(raw: bytes, limit: int = VALUE_CHARACTERS) -> Value:
    """Return the displayed form of a value; of a long value only the start is examined."""
    head = raw[: limit * 4]
    text, binary = _text(head, whole=len(head) == len(raw))
    cut = len(head) < len(raw) or len(text) > limit
    return Value(text[:limit], len(raw), cut, binary)


def _text(head: bytes, *, whole: bool) -> tuple[str, bool]:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A character that was split by the cut does not make a text binary.
        if whole or error.start < len(head) - 3:
            return "".join(_escape(byte) for byte in head), True
        text = head[: error.start].decode()
    return "".join(c if c.isprintable() or c in "\n\t" else _escape_character(c) for c in text), False


def _escape_character(character: str) -> str:
    return "".join(_escape(byte) for byte in character.encode())


def name(raw: bytes) -> str:
    """Return a name for a page: like ``quote``, but a long one is cut at its end."""
    if len(raw) <= NAME_CHARACTERS:
        return quote(raw)
    text = quote(raw[:NAME_CHARACTERS])
    return f"{text} … ({len(raw):,} bytes)"
