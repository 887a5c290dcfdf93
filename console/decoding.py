"""Decode values that programs wrote: JSON, base64, gzip and msgpack, nested; and name the framework that wrote them.

No value is ever executed: a pickle is named and never loaded. Bytes, depth and the number of decodings are limited.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

BYTES: Final = 65_536  # of a value, and of each value decoded from it
DEPTH: Final = 14  # levels of a tree that are kept; a page shows 12
FIELDS: Final = 10  # of a message to decode
TRIES: Final = 50  # decodings per value
WORK: Final = 2 * BYTES  # total bytes: 50 ms if a value is made to waste time
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{12,}={0,2}")
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05].*\.", re.DOTALL)
# How msgpack begins maps and arrays.
_CONTAINERS: Final = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))


@dataclass(frozen=True, slots=True)
class Decoded:
    """A value without its wrapping (base64, gzip, JSON …), and the names of the wrappings."""

    how: tuple[str, ...]  # the encodings, the outermost first: "base64", "gzip", "JSON" …
    # None, numbers, texts, lists and dicts with texts as keys; also None if the value is only named.
    tree: Any = None


@dataclass(slots=True)
class _Work:
    """The remaining limits for one value, and the encodings found inside its texts."""

    tries: int = TRIES
    left: int = WORK
    inner: dict[str, None] = field(default_factory=dict)


@lru_cache(16)  # the page of a message asks twice for each of its fields
def decoded(raw: bytes) -> Decoded | None:
    """Decode a value; None if it is plain text, or bytes of an unknown kind."""
    work = _Work()
    how, tree = _open(raw, work)
    if not how:
        return None
    return Decoded((*how, *(f"{name} inside" for name in work.inner)), tree)


def _open(raw: bytes, work: _Work) -> tuple[tuple[str, ...], Any]:
    """Return the encodings of bytes, and their tree; no encodings if none is recognised."""
    if not raw or len(raw) > min(BYTES, work.left) or work.tries <= 0:
        return (), None
    work.tries -= 1
    if raw[:1] in b"{[":
        work.left -= len(raw)
        try:
            return ("JSON",), _plain(json.loads(raw), work, 0)
        except (ValueError, RecursionError):
            pass  # no msgpack value starts with these
    if _PICKLE.fullmatch(raw):
        return ("pickle, not loaded",), None
    if raw[:2] in {b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"}:
        return _unzip(raw, work)
    if raw[0] in _CONTAINERS:
        return _msgpack(raw, work)
    if len(raw) % 4 == 0 and _BASE64.fullmatch(raw):
        how, tree = _open(base64.b64decode(raw), work)
        return (("base64", *how), tree) if how else ((), None)
    return (), None


def _unzip(raw: bytes, work: _Work) -> tuple[tuple[str, ...], Any]:
    name = "gzip" if raw[0] == 0x1F else "zlib"
    try:
        whole = zlib.decompressobj(47).decompress(raw, BYTES + 1)
    except zlib.error:
        return (), None
    work.left -= len(whole)
    if len(whole) > BYTES:
        return (f"{name} of more than {BYTES:,} bytes",), None
    how, tree = _open(whole, work)
    if how:
        return (name, *how), tree
    try:
        return (name, "text"), _word(whole.decode())
    except UnicodeDecodeError:
        return (name, "bytes"), None


def _msgpack(raw: bytes, work: _Work) -> tuple[tuple[str, ...], Any]:
    try:
        msgpack: Any = importlib.import_module("msgpack")
    except ImportError:
        return (), None
    work.left -= len(raw)
    try:
        tree = msgpack.unpackb(raw, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException):
        return (), None
    return ("msgpack",), _plain(tree, work, 0)


def _plain(node: Any, work: _Work, depth: int) -> Any:
    """Return a tree of JSON's own types; JSON and base64 inside its texts are decoded."""
    if depth > DEPTH:
        return "…"
    if node is None or isinstance(node, bool | int | float):
        return node
    if isinstance(node, dict):
        return {_word(name): _plain(one, work, depth + 1) for name, one in node.items()}
    if isinstance(node, list | tuple):
        return [_plain(one, work, depth + 1) for one in node]
    if not isinstance(node, str | bytes):
        return _word(node)
    how, tree = _open(node.encode("utf-8", "replace") if isinstance(node, str) else node, work)
    if not how:
        return _word(node)
    work.inner.update(dict.fromkeys(how))
    return tree if tree is not None else f"({', '.join(how)})"


def _word(node: Any) -> str:
    if isinstance(node, bytes):
        try:
            node = node.decode()
        except UnicodeDecodeError:
            return binascii.hexlify(node, " ").decode()
    # Replace lone surrogates, which no page can hold, and marks that change the direction of the following text.
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in str(node))


def framework(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the name of the framework that writes messages with these fields; empty if unknown."""
    found = dict(fields)
    names = found.keys()
    if {b"key", b"when", b"function", b"args", b"kwargs", b"attempt"} <= names:
        return "Docket"
    if b"__data__" in names:
        return "FastStream"
    if {b"event", b"jobId"} <= names:
        return "BullMQ events"
    if names == {b"task_id", b"enqueue_time"}:
        return "streaQ"
    for raw in list(found.values())[:FIELDS]:
        inside = decoded(raw)
        keys = inside.tree.keys() if inside is not None and isinstance(inside.tree, dict) else set()
        if {"body", "headers", "properties"} <= keys:
            return "Celery"
        if {"task_id", "task_name", "labels"} <= keys:
            return "taskiq"
    return ""
