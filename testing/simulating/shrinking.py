"""Shrinking of a failed simulation: find the fewest disturbances with which it still fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

LATENCY: Final = ("latency",)
LOSS: Final = ("loss",)

# Something that goes wrong: its kind, and what distinguishes it from others of this kind.
Disturbance = tuple[Any, ...]

_WORDS: Final = {
    "crashes": ("1 crash", "{} crashes"),
    "partitions": ("1 partition", "{} partitions"),
    "loss": ("1 lost command or reply", "{} lost commands and replies"),
    "own": ("1 crash or partition by the test itself", "{} crashes and partitions by the test itself"),
    "latency": ("late messages", ""),
}


def smallest(
    whole: Sequence[Disturbance], fails: Callable[[Sequence[Disturbance]], bool]
) -> list[Disturbance]:
    """Return a smallest part of the disturbances with which the test still fails: without any one of them it passes.

    Leave out all, then halves, then quarters, and finally single ones until none can be left out.
    ``fails``: runs the test with some of them; returns True if it fails.
    """
    known: dict[frozenset[Disturbance], bool] = {}
    kept = list(whole)
    size = len(kept)
    while size:
        at, is_less = 0, False
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if (part := frozenset(rest)) not in known:
                known[part] = fails(rest)
            if known[part]:
                kept, is_less = rest, True
            else:
                at += size
        size = size if size == 1 and is_less else size // 2
    return kept


def summary(
    needed: Mapping[Disturbance, str], off: Iterable[Disturbance], orders: tuple[int, int]
) -> list[str]:
    """Return lines that say which disturbances matter, and which do not.

    Args:
        needed: the disturbances that the failure needs, each with a description.
        off: the disturbances without which it also fails.
        orders: the number of other task orders in which it failed, and the number that were tried.
    """
    counts = Counter(each[0] for each in off)
    rest = ", ".join(_WORDS[kind][count > 1].format(count) for kind, count in counts.items())
    lines = []
    if needed:
        lines += ["It passes without any one of these:", *(f"  - {text}" for text in needed.values())]
        lines += [f"It fails without the rest, too: {rest}."] if rest else []
    else:
        lines += [f"It fails also if nothing goes wrong{f' (without {rest})' if rest else ''}."]
    failed, tried = orders
    if failed == tried:
        lines.append(f"The order of the tasks does not matter: it failed in {failed} of {tried} others, too.")
    else:
        lines.append(f"The order of the tasks matters: it failed in {failed} of {tried} others.")
    return lines
