"""LZF in plain Python, for a Python without a wheel of python-neo-lzf: it decompresses, but never compresses."""

from __future__ import annotations


def compress(_text: bytes, _most: int) -> None:
    """Return None, so that the text is stored uncompressed, which RDB allows for each string."""


def decompress(data: bytes, size: int) -> bytes | None:
    """Return the decompressed data, None if longer than ``size`` bytes. Raises ValueError: the data is damaged."""
    out = bytearray()
    at = 0
    try:
        while at < len(data) and len(out) <= size:
            control = data[at]
            at += 1
            if control < 32:  # a literal
                if at + control >= len(data):
                    raise ValueError("a literal beyond the end")
                out += data[at : at + control + 1]
                at += control + 1
                continue
            length = (control >> 5) + 2  # a repetition of earlier output
            if length == 9:
                length += data[at]
                at += 1
            distance = ((control & 0x1F) << 8 | data[at]) + 1
            at += 1
            if distance > len(out):
                raise ValueError("a repetition of bytes before the start")
            part = out[-distance:][:length]
            out += (part * (length // len(part) + 1))[:length]  # the repetition may overlap its own output
    except IndexError as error:
        raise ValueError("a repetition beyond the end") from error
    return bytes(out) if len(out) <= size else None
