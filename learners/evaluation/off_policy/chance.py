"""Random numbers that depend on a seed and a round's number only, so that parts of a log can be read in any split.

The generator is SplitMix64: Guy L. Steele, Doug Lea, Christine H. Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014, with the round's number and the replicate as counters.
"""

import math

import numpy as np
import numpy.typing as npt

from learners.base import FloatArray, IntArray
from learners.kernels import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def _thresholds() -> npt.NDArray[np.uint64]:
    """Return the distribution function of a Poisson variable of mean 1, times 2³²; the last number is 2³²."""
    steps = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(13)])
    return np.append(np.round(steps * 2.0**32).astype(np.uint64), np.uint64(2**32))


_POISSON = _thresholds()


@compiled
def _mixed(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled
def _counter_key(seed: int, stream: int, number: int) -> np.uint64:
    start = _mixed(_mixed(np.uint64(seed) + _GOLDEN) ^ np.uint64(stream))
    return _mixed(start ^ np.uint64(number))


@compiled
def _poisson(u: np.uint64) -> float:
    count = 0
    while u >= _POISSON[count]:
        count += 1
    return float(count)


@compiled
def bootstrap_weights(seed: int, numbers: IntArray, weights: FloatArray) -> None:
    """Write how often each replicate draws each round: independent Poisson variables of mean 1.

    This is the bootstrap for parts: Nicholas Chamandy, Omkar Muralidharan, Amir Najmi, Siddartha Naidu, "Estimating
    uncertainty for massive data streams", Google 2012.

    Args:
        seed: the seed, at least 0.
        numbers: the numbers of n rounds, at least 0.
        weights: (n, B + 1), overwritten. Column 0 is 1: the rounds themselves.
    """
    replicates = weights.shape[1] - 1
    for i in range(len(numbers)):
        key = _counter_key(seed, 0, numbers[i])
        weights[i, 0] = 1.0
        for pair in range((replicates + 1) // 2):
            bits = _mixed(key + np.uint64(pair + 1) * _GOLDEN)
            weights[i, 2 * pair + 1] = _poisson(bits & _LOW)
            if 2 * pair + 2 <= replicates:
                weights[i, 2 * pair + 2] = _poisson(bits >> _32)


@compiled
def uniforms(seed: int, stream: int, numbers: IntArray) -> FloatArray:
    """Return a uniform number in [0, 1) for each round (n,); streams 1, 2, … are independent of each other."""
    result = np.empty(len(numbers))
    for i in range(len(numbers)):
        result[i] = float(_counter_key(seed, stream, numbers[i]) >> _11) * 2.0**-53
    return result
