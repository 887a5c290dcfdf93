"""The recent values of each stream and group: a bounded ring of samples."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import pairwise
from typing import Final

SAMPLES: Final = 600
SERIES: Final = 1_000  # of 600 samples with four numbers each: at most about 100 MB, and usually far less

Key = tuple[bytes, ...]  # a stream's key, or a key and a group
Sample = tuple[float, float | None, float | None, float | None]


class Samples:
    """The last samples of each series (the values of a stream or a group over time).

    If there are too many series, a new one replaces the least recently extended.
    """

    def __init__(self, samples: int = SAMPLES, series: int = SERIES) -> None:
        self._samples = samples
        self._most = series
        self._series: OrderedDict[Key, deque[Sample]] = OrderedDict()

    def add(self, key: Key, sample: Sample) -> None:
        """Append a sample to a series: a time in seconds, and three numbers whose meaning is the caller's."""
        ring = self._series.get(key)
        if ring is None:
            if len(self._series) >= self._most:
                self._series.popitem(last=False)
            ring = self._series[key] = deque(maxlen=self._samples)
        ring.append(sample)
        self._series.move_to_end(key)

    def of(self, key: Key) -> list[Sample]:
        """Return the samples of one series, oldest first."""
        return list(self._series.get(key, ()))

    def clear(self) -> None:
        """Forget all samples, because another server answers."""
        self._series.clear()


def rate(before: Sample | None, after: Sample, column: int) -> float | None:
    """Return the growth per second of a column of two samples; None if it is unknown or the counter restarted."""
    if before is None:
        return None
    old, new = before[column], after[column]
    seconds = after[0] - before[0]
    if old is None or new is None or seconds <= 0 or new < old:
        return None
    return (new - old) / seconds


def rates(samples: list[Sample], column: int) -> list[float | None]:
    """Return the growth per second of a column at each sample; None at the first."""
    return [None, *(rate(before, after, column) for before, after in pairwise(samples))]
