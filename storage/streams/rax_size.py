"""How many nodes Redis' radix tree would have (XINFO STREAM); the tree itself is not kept.

All follows from how many bytes neighbouring keys share. A leaf hangs on the node where its key parts from that
neighbour with which it shares more. Two nodes lie on the way from one parting to the next if there are bytes between
them, else one.
"""

from __future__ import annotations

from typing import Final

_KEY_BYTES: Final = 16
_ALL: Final = bytes(range(_KEY_BYTES))
# By depth. x: keys part here; n: they part one byte before; o: earlier; later partings are left out.
_MARKS: Final = tuple(
    bytes(b"xno"[min(max(depth - shared, 0), 2)] for shared in range(256)) for depth in range(_KEY_BYTES)
)


def shared_bytes(first: int, second: int) -> int:
    """With how many bytes both keys begin; they are different numbers of 128 bits."""
    return _KEY_BYTES - ((first ^ second).bit_length() + 7) // 8


def tree_size(shared: bytes | bytearray) -> int:
    """The nodes of a tree.

    Args:
        shared: for each key but the first how many bytes it shares with the one before.
    """
    # IDs that part from both neighbours at their last byte or before have bytes of their own.
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
            between = marks.replace(b"n", b"nn").count(b"nxn")  # doubled, for they share their n
            size -= marks.count(b"nx") + marks.count(b"xn") - between
        else:
            size -= 1  # nothing comes before the root
    return size


def _runs(marks: bytes | bytearray) -> int:
    """How many times x, once or several times, stands between other marks."""
    return marks.count(b"nx") + marks.count(b"ox") + marks.startswith(b"x")
