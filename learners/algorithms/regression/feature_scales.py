"""Values relative to the running mean and deviation of their feature, so that neither units nor offsets matter.

Stéphane Ross, Paul Mineiro, John Langford, "Normalized Online Learning", UAI 2013, divide each feature by its largest
value so far, so that one outlier makes all other values small; the root mean square of clipped values, which is used
here, is robust. If means are large, as those of age and income are, all contexts point in nearly the same direction. So
features that nearly all contexts have are centred (Welford 1962, with clipped values), provided that a feature that
never changed, an intercept, can absorb the means. Other features keep their zeros, and the cost stays proportional to
the number of non-zeros.
"""

import math
from collections.abc import Callable

import numpy as np

from learners.base import FloatArray, IntArray
from learners.kernels import compiled

LARGEST_VALUE = 5.0
"""Relative values are clipped to this magnitude, which bounds the effect of an outlier on scores and on the scale."""

_LARGEST_SCALE = 1e308  # keeps the scale finite
_LARGEST_MEAN = 1e307  # values are clipped to this magnitude where means are computed, so that differences are finite
_USUAL = 0.9  # the minimum share of rounds in which a centred feature has a value
_NOT_ZERO = 0.3  # the minimum share of them that are not zero; zeros are values in dense contexts only

_LEAST_DEVIATION = 1e-10
"""The minimum deviation of a centred feature, as a share of its mean: a smaller one may be rounding."""

_CLIPPED_SHARE = 0.1  # a value with at least this weight in the mean is not clipped: the first estimates are rough

_FEW, FAR = 10.0, 100.0
"""If one of the first ten values is a hundred times smaller than the scale, an earlier value was an outlier, and the
estimates start again from the smaller value. A scale that is too small grows within a few rounds, as clipped values
multiply it; a scale that is f times too large would need about f² rounds to shrink."""

ENOUGH = 100.0
"""The number of values after which the scale is known: a value a hundred times larger is then an outlier."""

RUN, _SMALLER = 300.0, 10.0
"""The estimates start again from the largest of 300 values in a row that are all ten times smaller than the scale.
Clipped squares average the square of the scale, so at least 3.9 % of the values are larger than a tenth of the scale:
unless the values have changed, such a run has a probability of about 6e-6. SquareCB waits as long."""

_LARGEST_RATIO = 1e50  # keeps the squares of ratios finite
OUTLIERS, INTERCEPT, CENTRED = -3, -2, -1
"""Positions in the counts of a state: rounds with outliers, whether there is an intercept, 1 + the last centred row."""
_SCALE, _VALUES, _DEVIATION, _MEASURED, _SMALL, _LARGEST_SMALL, _PRESENT = range(7)  # columns of `scales`


@compiled
def centred_rows(counts: IntArray, rows: int) -> int:
    """Return the number of leading rows that may be centred; 0 if there is no intercept."""
    return max(0, min(rows, counts[CENTRED])) if counts[INTERCEPT] > 0 else 0


@compiled
def write_relative(
    scales: FloatArray,
    means: FloatArray,
    rounds: int,
    centred: int,
    indices: IntArray,
    values: FloatArray,
    where: IntArray,
    z: FloatArray,
) -> int:
    """Write the relative values of a context, clipped; return their number.

    A relative value is x_i / S_i or, if the feature is centred, (x_i - mean_i) / deviation_i. Only features below
    `centred` may be centred; a centred feature has a relative value even where it is 0. `scales` (R, 7) contains, for
    each feature: S_i; the number of its values that are not 0; the deviation; the number of values that the mean and
    the deviation are taken from, all of them from times when nearly all contexts had the feature; how many of its
    latest values in a row were small; the largest of these; and the number of its values, with zeros of dense contexts.
    Indices must be distinct. `where` receives the features, and `z` their relative values, which are 0 for a feature
    without a scale. Both need room for `centred` entries more than the context has.
    """
    n, present = len(values), 0
    for position in range(n):
        i = indices[position]
        where[position] = i
        if i < centred:
            present += 1
            z[position] = _centred(scales, means, rounds, i, values[position])
        else:
            z[position] = _clipped(values[position], scales[i, _SCALE])
    return n if present == centred else _write_zeros(scales, means, rounds, centred, n, where, z)


@compiled
def _write_zeros(
    scales: FloatArray, means: FloatArray, rounds: int, centred: int, n: int, where: IntArray, z: FloatArray
) -> int:
    """Append the relative values of centred features that are not among the first n of `where`; return the total."""
    present, end = np.zeros(centred, np.bool_), n
    for position in range(n):
        if where[position] < centred:
            present[where[position]] = True
    for i in range(centred):
        if not present[i] and _is_centred(scales, means, rounds, i):
            where[end], z[end] = i, _clipped(-means[i], scales[i, _DEVIATION])
            end += 1
    return end


@compiled
def _is_centred(scales: FloatArray, means: FloatArray, rounds: int, i: int) -> bool:
    present, varies = scales[i, _PRESENT], scales[i, _DEVIATION] > _LEAST_DEVIATION * abs(means[i])
    usual: bool = present >= _USUAL * rounds and scales[i, _VALUES] >= _NOT_ZERO * present
    return usual and varies


@compiled
def _centred(scales: FloatArray, means: FloatArray, rounds: int, i: int, x: float) -> float:
    if _is_centred(scales, means, rounds, i):
        return _clipped(x - means[i], scales[i, _DEVIATION])
    return _clipped(x, scales[i, _SCALE])


@compiled
def _clipped(x: float, scale: float) -> float:
    return min(LARGEST_VALUE, max(-LARGEST_VALUE, x / scale)) if scale > 0.0 else 0.0


def added_by_entries(
    scales: FloatArray,
    means: FloatArray,
    rounds: int,
    centred: int,
    rows: IntArray,
    values: FloatArray,
    weights_of: Callable[[IntArray], FloatArray],
) -> FloatArray:
    """Return the contribution of each of the m entries of a vector to K sums of weighted relative values, (m, K).

    The last entry, the constant if there is one, includes what centred features that are zero contribute. Rows
    (m,) are -1 for features without weights; `weights_of` returns the weights (n, K) of n features. For the rest, see
    `write_relative`.
    """
    found = np.flatnonzero(rows >= 0)
    where, z = np.empty(len(found) + centred, np.int64), np.empty(len(found) + centred)
    n = write_relative(scales, means, rounds, centred, rows[found], values[found], where, z)
    parts = weights_of(where[:n]) * z[:n, np.newaxis]
    added = np.zeros((len(rows), parts.shape[1]))
    added[found] = parts[: len(found)]
    added[-1:] += parts[len(found) :].sum(axis=0)
    return added


def outlier_warnings(rounds: int) -> list[str]:
    """Return a sentence on the rounds with outliers, if there are any."""
    clipped = f"features: values over {FAR:.0f} times the usual size of their feature were clipped; rounds: {rounds:,}."
    return [clipped] if rounds else []


@compiled
def relative_values(
    scales: FloatArray,
    means: FloatArray,
    counts: IntArray,
    rounds: int,
    indices: IntArray,
    values: FloatArray,
    where: IntArray,
    z: FloatArray,
) -> int:
    """Write the relative values that are not 0; return their number. All else is as in `write_relative`."""
    written = write_relative(scales, means, rounds, centred_rows(counts, len(means)), indices, values, where, z)
    end = 0
    for position in range(written):
        if z[position] != 0.0:
            where[end], z[end] = where[position], z[position]
            end += 1
    return end


@compiled
def size_of(z: FloatArray) -> float:
    """Return ‖z‖²."""
    total = 0.0
    for one in z:
        total += one * one
    return total


@compiled
def overlap_of(scales: FloatArray, rounds: int, where: IntArray, z: FloatArray) -> float:
    """Return Σ f_i z_i², where f_i is the share of the rounds in which feature i is not 0.

    Its mean over the rounds estimates E(z'z₂)² for two contexts z and z₂ whose features are uncorrelated. For dense
    contexts it is about d; for sparse ones it is much less than the number of non-zeros.
    """
    total = 0.0
    for position in range(len(z)):
        total += min(1.0, scales[where[position], _VALUES] / rounds) * z[position] * z[position]
    return total


@compiled
def measure(
    scales: FloatArray, means: FloatArray, counts: IntArray, rounds: int, indices: IntArray, values: FloatArray
) -> None:
    """Update the scales and, if there is an intercept, the means with one context; `rounds` includes its round.

    An intercept is a feature that was not 0 in any round, and never changed.
    """
    intercept = is_outlier = False
    centring = rounds == 1 or counts[INTERCEPT] > 0  # in the first round, any feature may be the intercept
    for position in range(len(values)):
        i, x = indices[position], values[position]
        is_outlier = is_outlier or (scales[i, _VALUES] >= ENOUGH and abs(x) > FAR * scales[i, _SCALE])
        scales[i, _PRESENT] += 1.0
        if x != 0.0:
            scales[i, _VALUES] += 1.0
            _measure_size(scales, means, i, abs(x))
        if not centring or scales[i, _PRESENT] < _USUAL * rounds:
            continue
        most = min(_LARGEST_MEAN, LARGEST_VALUE * scales[i, _SCALE])
        _measure_deviation(scales, means, i, min(most, max(-most, x)))
        if scales[i, _DEVIATION] == 0.0:
            intercept = intercept or scales[i, _VALUES] == rounds
        elif _is_centred(scales, means, rounds, i):
            counts[CENTRED] = max(counts[CENTRED], i + 1)
    counts[INTERCEPT] = 1 if intercept else 0
    counts[OUTLIERS] += 1 if is_outlier else 0


@compiled
def _measure_size(scales: FloatArray, means: FloatArray, i: int, size: float) -> None:
    scale, is_small = scales[i, _SCALE], size * _SMALLER < scales[i, _SCALE]
    scales[i, _SMALL] = scales[i, _SMALL] + 1.0 if is_small else 0.0
    scales[i, _LARGEST_SMALL] = max(scales[i, _LARGEST_SMALL], size) if is_small else 0.0
    early = scales[i, _VALUES] <= _FEW and size * FAR < scale
    if early or scales[i, _SMALL] >= RUN:
        scales[i, _SCALE] = size if early else scales[i, _LARGEST_SMALL]
        means[i] = scales[i, _DEVIATION] = scales[i, _MEASURED] = scales[i, _SMALL] = 0.0
    elif scale > 0.0:
        ratio = min(LARGEST_VALUE, size / scale)
        scale *= math.sqrt(1.0 + (ratio * ratio - 1.0) / scales[i, _VALUES])
        scales[i, _SCALE] = min(_LARGEST_SCALE, scale)
    else:
        scales[i, _SCALE] = size


@compiled
def _measure_deviation(scales: FloatArray, means: FloatArray, i: int, x: float) -> None:
    scales[i, _MEASURED] += 1.0
    share, difference, deviation = 1.0 / scales[i, _MEASURED], x - means[i], scales[i, _DEVIATION]
    if deviation == 0.0:
        scales[i, _DEVIATION] = abs(difference) * math.sqrt((1.0 - share) * share)
    else:
        most = LARGEST_VALUE * deviation if share < _CLIPPED_SHARE else math.inf
        difference = min(most, max(-most, difference))
        ratio = min(_LARGEST_RATIO, abs(difference) / deviation)
        deviation *= math.sqrt(1.0 + (ratio * ratio * (1.0 - share) - 1.0) * share)
        scales[i, _DEVIATION] = min(_LARGEST_SCALE, deviation)
    means[i] += difference * share
