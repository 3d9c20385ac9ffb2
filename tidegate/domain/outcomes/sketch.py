"""Quantiles of milliseconds in a bounded space, mergeable without loss: DDSketch (Masson, Rim, Lee; VLDB 2019).

A value is counted in the bin of its logarithm, so that every quantile is within ACCURACY of an observed value, how
ever wide the values spread, and however many sketches were merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import DenseStore

ACCURACY: Final = 0.01
"""Relative: a quantile of 200 ms is told as 198 to 202."""
LEAST_MS: Final = 0.01
MOST_MS: Final = 1e8
"""Values beyond count as these; so a sketch has at most 1,150 bins."""

_MAPPING: Final = LogarithmicMapping(ACCURACY)


class Sketch:
    """Not thread-safe. `bins` and `of_bins` are its compact form: key and count by turns, keys as differences."""

    __slots__ = ("_bins", "_sketch")

    def __init__(self) -> None:
        self._bins = DenseStore(chunk_size=32)
        self._sketch = BaseDDSketch(_MAPPING, self._bins, DenseStore(), 0.0)

    @property
    def count(self) -> int:
        """Values counted."""
        return int(self._bins.count)

    def add(self, milliseconds: float) -> None:
        """Count a value."""
        self._sketch.add(min(max(milliseconds, LEAST_MS), MOST_MS))

    def merge(self, other: Sketch) -> None:
        """Count what `other` counted as well."""
        self._sketch.merge(other._sketch)

    def quantile_ms(self, part: float) -> float | None:
        """The value below which `part` (0…1) of the values lie; None without any."""
        value = self._sketch.get_quantile_value(part)
        return None if value is None else float(value)

    def bins(self) -> list[int]:
        """The bins that count something: [key, count, key - key before, count, …]."""
        flat: list[int] = []
        before = 0
        for key, count in enumerate(self._bins.bins, self._bins.offset):
            if count:
                flat += (key - before, int(count))
                before = key
        return flat

    @classmethod
    def of_bins(cls, flat: Sequence[int]) -> Sketch:
        """The sketch of which these are the bins."""
        sketch = cls()
        sketch._fill(zip(flat[::2], flat[1::2], strict=False))
        return sketch

    def _fill(self, bins: Iterable[tuple[int, int]]) -> None:
        store, key = DenseStore(chunk_size=32), 0
        for step, count in bins:
            key += step
            if count > 0 and _FIRST_KEY <= key <= _LAST_KEY:
                store.add(key, float(count))
        self._bins, self._sketch = store, BaseDDSketch(_MAPPING, store, DenseStore(), 0.0)


_FIRST_KEY: Final = _MAPPING.key(LEAST_MS)
_LAST_KEY: Final = _MAPPING.key(MOST_MS)


def quantile_of(counts: Mapping[int, int], part: float) -> float | None:
    """`Sketch.quantile_ms` of the sketch whose bins, by key, have these counts."""
    rank = part * (sum(counts.values()) - 1)
    seen = 0
    for key in sorted(counts):
        seen += counts[key]
        if seen > rank:
            return float(_MAPPING.value(key))
    return None


def most_ms(key: int) -> float:
    """The largest value that a bin counts; it counts none up to that of the bin before."""
    return float(_MAPPING.value(key) * (1 + _MAPPING.gamma) / 2)


def key_of(milliseconds: float) -> int:
    """The bin that counts a value."""
    return int(_MAPPING.key(min(max(milliseconds, LEAST_MS), MOST_MS)))
