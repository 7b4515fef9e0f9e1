"""Ordinal regression by gradient descent on a Fenchel-Young loss (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024, Appendix C.1, "ordinal regression".
"""

import math
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from learners.algorithms.fenchel_young.structured import Structured
from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.hyperparameters import Magnitude, hyperparameters
from learners.kernels import Kernels, compiled, place_of, row
from learners.learner import CompiledLearner
from learners.mathematics.descent import DescentState, Steps, count, descend, multiplier
from learners.mathematics.exploration import settle
from learners.mathematics.linear_algebra import score_row
from learners.output_spaces.binary import Ordinal
from learners.output_spaces.isotonic import clip, clipped_fit


class OrdinalState(DescentState):
    """A `DescentState` whose distinct type selects this learner's kernels."""

    __slots__ = ()


class _Parameters(NamedTuple):
    steps: Steps
    strong_convexity: float  # λ
    recomputes: bool


@hyperparameters
class FenchelYoungOrdinal(Structured, CompiledLearner[DescentState]):
    """Answers with one of K levels, ordered from lowest to highest; an error costs its distance in levels.

    The target loss is |level - truth| / (K - 1). Each of the K - 1 thresholds between levels has a score. Level m,
    counted from 0, is encoded as m ones followed by zeros. The answer is y*, the level nearest to the mean ŷ, or, with
    probability min(1, 2‖y* - ŷ‖), a random level whose encoding has mean ŷ. Before any feedback, the answer is the
    lowest level.
    """

    algorithm = "fenchel-young-ordinal"
    answer: ClassVar[Literal["level"]] = "level"
    state_type = OrdinalState
    loss_name = "difference of levels, divided by K - 1,"

    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4/√(K - 1); `null` for 8/√(K - 1)."""

    @property
    def constants_named(self) -> str:
        return "a = 1 - 4/(λ√(K - 1)), b = 2X²/λ"

    @cached_property
    def space(self) -> Ordinal:
        return Ordinal(n_steps=self.problem.n_labels - 1, regularization=self.regularization)

    def vertices(self, labels: IntArray) -> FloatArray:
        return (np.arange(self.problem.n_labels - 1) < labels[:, None]).astype(np.float64)

    @property
    def kernels(self) -> Kernels:
        strong_convexity = self.space.constants.strong_convexity
        return Kernels(_Parameters(self.step_sizes, strong_convexity, self.recomputes), _decide, _fold)


class _Room(NamedTuple):
    mean: FloatArray  # (K - 1,), ŷ
    block_means: FloatArray  # (K - 1,)
    block_sizes: IntArray  # (K - 1,)


@compiled
def _room(D: int) -> _Room:
    return _Room(np.empty(D), np.empty(D), np.empty(D, np.int64))


@compiled
def _write_mean(
    parameters: _Parameters, state: OrdinalState, contexts: Contexts, eligible: BoolArray, i: int, room: _Room
) -> None:
    """Write ŷ for context i to `room.mean`: the non-increasing fit to the scores divided by λ, clipped to [0, 1].

    If only some levels are eligible, ŷ is the best fit in the convex hull of their encodings. Its entries are 1 below
    the lowest eligible level and 0 from the highest eligible level on. Between neighbouring eligible levels, they are
    equal, because the scores there are averaged before the fit.
    """
    score_row(state.direction, contexts, i, room.mean)
    room.mean[:] *= multiplier(parameters.steps, state)
    room.mean[:] /= parameters.strong_convexity
    if eligible.shape[1] == 0:
        clipped_fit(room.mean, room.block_means, room.block_sizes)
        return
    first, last = _average_between(eligible[i], room.mean)
    clipped_fit(room.mean[first:last], room.block_means[first:last], room.block_sizes[first:last])
    room.mean[:first] = 1.0
    room.mean[last:] = 0.0
    _level_out(eligible[i], room.mean)


@compiled
def _average_between(levels: BoolArray, mean: FloatArray) -> tuple[int, int]:
    """Average the entries between neighbouring eligible levels; return the lowest and highest eligible level."""
    first, last = -1, 0
    for level in range(len(levels)):
        if levels[level]:
            if first < 0:
                first = level
            elif level > last + 1:  # a single entry is its own mean
                mean[last:level] = mean[last:level].mean()
            last = level
    return first, last


@compiled
def _level_out(levels: BoolArray, mean: FloatArray) -> None:
    """Make the entries between neighbouring eligible levels bit-identical, so that ineligible levels get exactly 0."""
    for level in range(1, len(mean)):
        if not levels[level]:
            mean[level] = mean[level - 1]


@compiled
def _decide(
    parameters: _Parameters,
    state: OrdinalState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    room = _room(state.direction.shape[1])
    for i in range(len(distributions)):
        _write_mean(parameters, state, contexts, eligible, i, room)
        _decode(room.mean, distributions[i])
        if not parameters.recomputes:
            evidence[i] = room.mean


@compiled
def _decode(mean: FloatArray, distribution: FloatArray) -> None:
    """Write the probability of each level m: p (ŷ_m - ŷ_(m+1)), plus 1 - p for the level nearest to ŷ.

    Here p = min(1, 2‖y* - ŷ‖), ŷ_0 = 1 and ŷ_K = 0.
    """
    nearest, squares = 0, 0.0
    for entry in mean:
        nearest += entry > 0.5
        squares += min(entry, 1.0 - entry) ** 2
    p, above = min(1.0, 2.0 * math.sqrt(squares)), 1.0
    for m in range(len(mean)):
        distribution[m] = p * (above - mean[m])
        above = mean[m]
    distribution[len(mean)] = p * above
    distribution[nearest] += 1.0 - p
    settle(distribution)


@compiled
def _fold(parameters: _Parameters, state: OrdinalState, rounds: Rounds) -> None:
    room = _room(state.direction.shape[1])
    for t in range(len(rounds.labels)):
        level = rounds.true_labels[t]
        if level != NO_LABEL and place_of(rounds.eligible, t, level) >= 0:
            indices, values = row(rounds.contexts, t)
            if parameters.recomputes:
                _write_mean(parameters, state, rounds.contexts, rounds.eligible, t, room)
            else:
                room.mean[:] = rounds.evidence[t]
                clip(room.mean)  # corrupt evidence could move the weights arbitrarily far
            room.mean[:level] -= 1.0  # ŷ - y
            descend(parameters.steps, state, room.mean, indices, values)
        count(state)
