"""Sets of completion indexes as the status of an Indexed Job writes them: `0,1,4-7`. Pure.

Kept as sorted, disjoint, never touching intervals, so that the work is bounded by the intervals and not by completions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct


class Indexes(Struct, frozen=True):
    """Intervals (first, last), both ends included."""

    intervals: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Two neighbours are joined by a comma, three or more by a dash, as Kubernetes does."""
        return ",".join(_text(first, last) for first, last in self.intervals)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self.intervals, index, key=lambda interval: interval[0])
        return at > 0 and index <= self.intervals[at - 1][1]

    def union(self, other: Indexes) -> Indexes:
        if not other.intervals:
            return self
        return _joined([*self.intervals, *other.intervals])

    def with_indexes(self, indexes: Iterable[int]) -> Indexes:
        return self.union(_joined([(index, index) for index in indexes]))

    def common(self, other: Indexes) -> int:
        """How many indexes are in both."""
        count, i, j = 0, 0, 0
        while i < len(self.intervals) and j < len(other.intervals):
            (first, last), (other_first, other_last) = self.intervals[i], other.intervals[j]
            count += max(0, min(last, other_last) - max(first, other_first) + 1)
            if last < other_last:
                i += 1
            else:
                j += 1
        return count

    def first_missing(self, count: int, below: int) -> list[int]:
        """The `count` lowest indexes from 0 to `below`, exclusive, that are not here (fewer if there are fewer)."""
        missing: list[int] = []
        candidate = 0
        for first, last in (*self.intervals, (below, below)):
            missing.extend(range(candidate, min(first, below, candidate + count - len(missing))))
            if len(missing) >= count:
                break
            candidate = max(candidate, last + 1)
        return missing


def parse_indexes(text: str, below: int) -> Indexes:
    """The indexes under `below` that `text` names. What is not a number is left out: only we write the text."""
    intervals = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        low, high = int(first), min(int(last or first), below - 1)
        if low <= high:
            intervals.append((low, high))
    return _joined(intervals)


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if first + 1 == last else f"{first}-{last}"


def _joined(intervals: list[tuple[int, int]]) -> Indexes:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return Indexes(tuple(merged))
