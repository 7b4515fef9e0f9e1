"""Latencies counted in buckets of equal relative width, after Gil Tene's HdrHistogram.

Its Python package would bring setuptools and pbr into every installation of the service; what is needed of
it is the bucket of a number. Values are microseconds; up to 2047 each has a bucket of its own, above that a
bucket is less than 1/1024 of its values wide.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Self

_BITS = 11  # significant bits of a value that are kept
_HALF = _BITS - 1


class Histogram:
    """How often each duration was seen, to three digits, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._greatest = 0

    def __len__(self) -> int:
        """How many durations were added."""
        return self._counts.total()

    @property
    def greatest(self) -> float:
        """The greatest duration in seconds, exact to the microsecond; 0 where there is none."""
        return self._greatest / 1e6

    def add(self, seconds: float) -> None:
        """Counts one duration; a negative one counts as 0."""
        value = max(0, int(seconds * 1e6))
        self._greatest = max(self._greatest, value)
        shift = max(0, value.bit_length() - _BITS)
        self._counts[(shift << _HALF) + (value >> shift)] += 1

    def merge(self, other: Self) -> None:
        """Adds all of another histogram's durations."""
        self._counts.update(other._counts)
        self._greatest = max(self._greatest, other._greatest)

    def percentile(self, percent: float) -> float:
        """The least duration, in seconds, that so many percent of all do not exceed; 0 where there is none."""
        wanted = max(1, math.ceil(len(self) * percent / 100 - 1e-6))  # so much rounding is forgiven
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_highest(bucket), self._greatest) / 1e6
        return 0.0

    def to_json(self) -> dict[str, object]:
        """The counts by bucket, as `from_json` reads them."""
        return {"greatest": self._greatest, "counts": {str(bucket): n for bucket, n in self._counts.items()}}

    @classmethod
    def from_json(cls, written: Mapping[str, object]) -> Self:
        """The histogram that `to_json` wrote."""
        histogram = cls()
        greatest, counts = written["greatest"], written["counts"]
        assert isinstance(greatest, int)
        assert isinstance(counts, dict)
        histogram._greatest = greatest
        histogram._counts.update({int(bucket): int(n) for bucket, n in counts.items()})
        return histogram


def _highest(bucket: int) -> int:
    """The greatest value, in microseconds, that falls into a bucket."""
    shift = max(0, (bucket >> _HALF) - 1)
    return ((bucket - (shift << _HALF) + 1) << shift) - 1
