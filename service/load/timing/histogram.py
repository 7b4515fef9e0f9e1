"""Counts of latencies in buckets of equal relative width, after Gil Tene's HdrHistogram.

Its Python package would bring setuptools and pbr into every installation of the service, and we need only the bucket of
a number. Values are microseconds. Each value up to 2047 has its own bucket; above that, the width of a bucket is at
most 1/1024 of its values.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Self

_BITS = 11  # significant bits of a value that are kept
_HALF = _BITS - 1


class Histogram:
    """Counts of durations to three significant digits, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._greatest = 0

    def __len__(self) -> int:
        """Return the number of added durations."""
        return self._counts.total()

    @property
    def greatest(self) -> float:
        """The greatest duration in seconds, exact to the microsecond; 0 if there is none."""
        return self._greatest / 1e6

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one counts as 0."""
        value = max(0, int(seconds * 1e6))
        self._greatest = max(self._greatest, value)
        shift = max(0, value.bit_length() - _BITS)
        self._counts[(shift << _HALF) + (value >> shift)] += 1

    def merge(self, other: Self) -> None:
        """Add all durations of another histogram."""
        self._counts.update(other._counts)
        self._greatest = max(self._greatest, other._greatest)

    def percentile(self, percent: float) -> float:
        """Return the smallest duration, in seconds, that `percent` of all do not exceed; 0 if there is none."""
        wanted = max(1, math.ceil(len(self) * percent / 100 - 1e-6))  # allows for rounding errors
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_highest(bucket), self._greatest) / 1e6
        return 0.0

    def to_json(self) -> dict[str, object]:
        """Return the counts by bucket in the form that `from_json` reads."""
        return {"greatest": self._greatest, "counts": {str(bucket): n for bucket, n in self._counts.items()}}

    @classmethod
    def from_json(cls, written: Mapping[str, object]) -> Self:
        """Read the output of `to_json`."""
        histogram = cls()
        greatest, counts = written["greatest"], written["counts"]
        assert isinstance(greatest, int)
        assert isinstance(counts, dict)
        histogram._greatest = greatest
        histogram._counts.update({int(bucket): int(n) for bucket, n in counts.items()})
        return histogram


def _highest(bucket: int) -> int:
    """Return the greatest value of a bucket, in microseconds."""
    shift = max(0, (bucket >> _HALF) - 1)
    return ((bucket - (shift << _HALF) + 1) << shift) - 1
