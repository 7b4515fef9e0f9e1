"""The sums from which every estimator is computed. They merge for any split of a log into parts.

Random numbers depend only on a seed, a purpose and a round's number, so results do not depend on the split. The
generator is SplitMix64: Guy L. Steele, Doug Lea, Christine H. Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014, with the round's number and the replicate as counters.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import FloatArray, IntArray
from learners.kernels import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def _thresholds() -> npt.NDArray[np.uint64]:
    """Return 2³² times the distribution function of a Poisson variable of mean 1 at 0, 1, …, 12, and then 2³²."""
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
    """Write how often each replicate draws each of n rounds to columns 1 … B of (n, B + 1), and 1 to column 0.

    The counts are independent Poisson variables of mean 1, a bootstrap that can be computed in parts: Nicholas
    Chamandy, Omkar Muralidharan, Amir Najmi, Siddartha Naidu, "Estimating uncertainty for massive data streams", Google
    2012. Seed and numbers are at least 0.
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


CLIPS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
"""The bounds on weights of the conservative interval, fixed independently of the data."""

REPLAY_LEVELS = 41
"""The number of levels. Replay keeps a round with probability weight / 2^level, for the least sufficient level ≥ 0."""

_BLOCK = 2048  # rounds whose bootstrap weights are in memory at a time


class Settings(NamedTuple):
    """The settings that all parts of an evaluation must share."""

    seed: int = 0  # for the random numbers of the bootstrap and of replay
    replicates: int = 1000  # of the bootstrap
    clip: float = 100.0  # the largest weight of clipped IPS


class Terms(NamedTuple):
    """n rounds, weighted for one policy."""

    numbers: IntArray  # (n,) int64, as in `LoggedRounds`
    weights: FloatArray  # (n,), the policy's probability of the logged answer, divided by the propensity
    rewards: FloatArray  # (n,), in [0, 1]
    predicted: FloatArray  # (n,), the reward model's prediction for the logged answer; 0 without a model
    expected: FloatArray  # (n,), the prediction for the policy's own answers; 0 without a model
    modelled: FloatArray  # (n,), 1 if the round has a model, else 0
    certain: FloatArray  # (n,), 1 if the log gave its answer with certainty although it had a choice, else 0
    abstained: FloatArray  # (n,), 1 if the log abstained, else 0
    used: FloatArray  # (n,), 1 if the policy is evaluated on the round, else 0

    def rows(self, start: int, stop: int) -> "Terms":
        """Return the terms of rounds start … stop - 1, as views."""
        columns: list[Any] = [column[start:stop] for column in self]
        return Terms(*columns)


class Sums(NamedTuple):
    """Sums over rounds for one policy. Column 0 of B + 1 is for the rounds themselves, the others are replicates."""

    moments: FloatArray  # (10, B + 1), in the order of `MOMENTS`
    replayed: FloatArray  # (2, REPLAY_LEVELS, B + 1), rounds and rewards by the last level that keeps them
    clipped: FloatArray  # (len(CLIPS), 4): min(w, c)r and min(w, c)(1 - r), and the squares of both
    shape: FloatArray  # (4,): Σw², how many weights exceed the clip, their total excess, how many answers were certain
    largest: float  # the largest weight

    def merge(self, other: "Sums") -> "Sums":
        """Return the sums over the rounds of both."""
        return Sums(
            self.moments + other.moments,
            self.replayed + other.replayed,
            self.clipped + other.clipped,
            self.shape + other.shape,
            max(self.largest, other.largest),
        )


MOMENTS = (
    "rounds", "weight", "weighted", "clipped", "modelled", "direct", "doubly_robust", "abstained", "answered",
    "answered_weighted",
)  # fmt: skip
"""What the rows of `Sums.moments` add up: 1, w, wr, min(w, clip) r, whether there is a model, the terms of the direct
method and of doubly robust, w where the log abstained, and w and wr where it did not."""


def no_sums(settings: Settings) -> Sums:
    """Return sums over zero rounds."""
    columns = settings.replicates + 1
    replayed = np.zeros((2, REPLAY_LEVELS, columns))
    return Sums(np.zeros((len(MOMENTS), columns)), replayed, np.zeros((len(CLIPS), 4)), np.zeros(4), 0.0)


def merge_all(sums: Sequence[Sums]) -> Sums:
    """Merge one or more sums, in order."""
    return reduce(Sums.merge, sums)


def sum_terms(policies: Sequence[Terms], settings: Settings) -> list[Sums]:
    """Return the sums of each policy. All policies have terms for the same rounds."""
    sums = [no_sums(settings) for _ in policies]
    numbers = policies[0].numbers if policies else np.empty(0, np.int64)
    for start in range(0, len(numbers), _BLOCK):
        end = min(start + _BLOCK, len(numbers))
        drawn = np.empty((end - start, settings.replicates + 1))
        bootstrap_weights(settings.seed, numbers[start:end], drawn)
        accepted = uniforms(settings.seed, 1, numbers[start:end])
        for i, policy in enumerate(policies):
            sums[i] = sums[i].merge(_sum_block(policy.rows(start, end), drawn, accepted, settings))
    return sums


def _sum_block(terms: Terms, drawn: FloatArray, accepted: FloatArray, settings: Settings) -> Sums:
    weights, rewards, used = terms.weights * terms.used, terms.rewards, terms.used
    robust = terms.expected + terms.weights * (rewards - terms.predicted)
    columns = [used, weights, weights * rewards, np.minimum(weights, settings.clip) * rewards]
    columns += [used * terms.modelled, used * terms.modelled * terms.expected, used * robust]
    abstained = weights * terms.abstained
    columns += [abstained, weights - abstained, (weights - abstained) * rewards]
    replayed = np.zeros((2, REPLAY_LEVELS, drawn.shape[1]))
    _replay(weights, rewards, accepted, drawn, replayed)
    excess = np.maximum(weights - settings.clip, 0.0)
    shape = np.array([weights @ weights, (excess > 0.0).sum(), excess.sum(), used @ terms.certain])
    bounded = np.minimum(weights[:, None], np.array(CLIPS))
    won, lost = bounded * rewards[:, None], bounded * (1.0 - rewards[:, None])
    four = np.column_stack([won.sum(0), lost.sum(0), (won**2).sum(0), (lost**2).sum(0)])
    return Sums(np.array(columns) @ drawn, replayed, four, shape, float(weights.max(initial=0.0)))


@compiled
def _replay(
    weights: FloatArray, rewards: FloatArray, accepted: FloatArray, drawn: FloatArray, replayed: FloatArray
) -> None:
    """Add each round to the last level that keeps it, the largest with 2^level < weight / uniform number."""
    for i in range(len(weights)):
        if weights[i] <= accepted[i]:
            continue
        level, ratio = 0, weights[i] / max(accepted[i], 2.0**-60)
        while level < replayed.shape[1] - 1 and ratio > 2.0 ** (level + 1):
            level += 1
        for b in range(drawn.shape[1]):
            replayed[0, level, b] += drawn[i, b]
            replayed[1, level, b] += drawn[i, b] * rewards[i]
