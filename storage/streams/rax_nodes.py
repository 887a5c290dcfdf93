"""Compute how many nodes Redis' radix tree would have (XINFO STREAM), without building the tree.

The number follows from how many bytes neighbouring keys share. A leaf hangs on the node where its key diverges from the
neighbour with which it shares more. From one divergence to the next there are two nodes if bytes lie between them,
otherwise one.
"""

from __future__ import annotations

from typing import Final

_KEY_BYTES: Final = 16
_ALL: Final = bytes(range(_KEY_BYTES))
# By depth. x: keys diverge here; n: they diverge one byte before; o: earlier; later divergences are left out.
_MARKS: Final = tuple(
    (b"o" * (depth - 1) + b"n" * (depth > 0)).ljust(256, b"x") for depth in range(_KEY_BYTES)
)


def shared_bytes(first: int, second: int) -> int:
    """Return the length of the common prefix of two keys in bytes; they are different 128-bit numbers."""
    return _KEY_BYTES - ((first ^ second).bit_length() + 7) // 8


def tree_size(shared: bytes | bytearray) -> int:
    """Return the number of nodes of a tree.

    ``shared``: for each key but the first, how many bytes it shares with the previous key.
    """
    # IDs that diverge from both neighbours before their last byte have bytes of their own.
    last = _KEY_BYTES - 1
    short = shared.translate(_MARKS[last], _ALL[last + 1 :])
    leaves = len(shared) + 1
    size = 2 * leaves - short.count(b"x") - _runs(short)
    for depth in set(shared):
        marks = shared.translate(_MARKS[depth], _ALL[depth + 1 :])
        while b"xx" in marks:
            marks = marks.replace(b"xx", b"x")
        size += 2 * marks.count(b"x")
        if depth:
            between = marks.replace(b"n", b"nn").count(b"nxn")  # doubled, because they share their n
            size -= marks.count(b"nx") + marks.count(b"xn") - between
        else:
            size -= 1  # nothing comes before the root
    return size


def _runs(marks: bytes | bytearray) -> int:
    """Return the number of runs of x between other marks."""
    return marks.count(b"nx") + marks.count(b"ox") + marks.startswith(b"x")
