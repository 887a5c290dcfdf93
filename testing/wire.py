"""Commands and replies without a client library."""

from __future__ import annotations

from typing import Any


def encode(*words: bytes) -> bytes:
    """Return a command as clients send it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def parse_reply(data: bytes) -> Any:
    """Return an encoded reply as Python values, texts decoded; errors are exceptions, also inside arrays.

    Pushes beside a reply (SUBSCRIBE of several channels) make it a list of all of them.
    """
    import hiredis

    incomplete = object()
    reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape", notEnoughData=incomplete)
    reader.feed(data)
    values: list[Any] = []
    while (value := reader.gets()) is not incomplete:
        values.append(value)
    return values[0] if len(values) == 1 else values
