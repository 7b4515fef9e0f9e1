"""Answers are probabilities for any input and any number of rounds.

Every learner runs in batches, as in the service: 20 decisions from one state, with feedback immediately or some batches
later. Batches cycle through hard cases: zero, tiny and largest contexts; dense and sparse; all correct, all wrong; the
ends of the unit interval for the draw.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest

from learners import codec
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.answers import draw_answers, is_structured, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Decisions, Draws, FloatArray, IntArray, Problem, Rounds
from learners.compiled_learner import CompiledLearner
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import as_sparse, bits, is_finite, same_rows, unit_rows
from tests.learners.extremes import extreme_learners
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import other_answers

BATCH = 20
LONG = 100_000
SIZES = (2, 3, 20, 200)  # K
DELAYS = (0, 0, 1, 0, 3, 7)  # delays of the feedback, in batches
SAVES = 10  # round trips through the codec in a long run

_OVERHEAD = 10_000  # overhead of a round, in multiply-adds
_IN_PYTHON = 30_000  # extra overhead of a learner in Python, per weak learner if it has some


class Play(NamedTuple):
    """One case of the test."""

    case: Case
    n_labels: int
    most: int  # budget in multiply-adds, approximate

    def __str__(self) -> str:
        return f"{self.case}-K{self.n_labels}"

    def learner(self) -> AnyLearner | None:
        """Build the learner, or return None if it refuses that number of labels."""
        try:
            return self.case.at(Problem(self.n_labels, 2 if self.n_labels > 50 else 5))
        except pydantic.ValidationError:
            return None


def plays(most: int, sizes: tuple[int, ...]) -> list[Play]:
    """Return every implementation with each of these numbers of labels, or with the only number that it takes."""
    pairs = itertools.product(IMPLEMENTATIONS, sizes)
    return [Play(case, K, most) for case, K in pairs if case.n_labels in (None, K) or sizes[0] == K]


def rounds_within(learner: AnyLearner, most: int) -> int:
    """Return how many rounds the budget allows: at most LONG, at least three batches."""
    K, d = learner.problem.n_labels, learner.problem.n_features
    python = 0 if isinstance(learner, CompiledLearner) else _IN_PYTHON
    if isinstance(learner, AdaBoostOlm):
        python *= learner.weak_learners
    # A decision costs at most an update in matrix learners, and K·d in the others.
    cost = 2 * learner.fold_cost(d) + learner.decide_cost(d) + K**2 + _OVERHEAD + python
    return max(3 * BATCH, min(LONG, most // cost))


# --- the hard world


def contexts_of(learner: AnyLearner, rng: np.random.Generator, number: int) -> Contexts:
    """Return BATCH contexts of a kind that changes from batch to batch."""
    d, X = learner.problem.n_features, learner.problem.norm_bound
    rows = X * unit_rows(rng, BATCH, d) * (1.0 - 1e-15)
    match number % 8:
        case 0:
            rows *= rng.random((BATCH, 1))
        case 1:
            rows[::2] = 0.0
        case 2:
            rows *= 10.0 ** -rng.uniform(0.0, 300.0, (BATCH, 1))
        case 3:
            rows = X * np.eye(d)[rng.integers(0, d, BATCH)]
        case 4:
            rows[:] = rows[0]
    if number % 3 != 2:
        return Contexts.dense(rows)
    rows[rng.random(rows.shape) < 0.5] = 0.0
    return as_sparse(Contexts.dense(rows))


def truths_of(learner: AnyLearner, rng: np.random.Generator, labels: IntArray, x: FloatArray, number: int) -> IntArray:
    """Return truths that make all answers correct, or all wrong, or that come from a noisy linear teacher."""
    wrong = other_answers(learner, labels)
    regime = number // 8 % 4
    if regime < 2:
        return labels if regime == 0 else wrong
    if is_structured(learner):
        return np.where(rng.random(BATCH) < 0.5, labels.T, wrong.T).T
    teacher = np.random.default_rng(3).normal(size=(learner.problem.n_features, learner.problem.n_labels))
    truth = (x @ teacher).argmax(axis=1)
    return np.where(rng.random(BATCH) < 0.1, wrong, truth)


def dense(contexts: Contexts, d: int) -> FloatArray:
    """Return the rows (n, d)."""
    rows = np.zeros((contexts.n, d))
    for i, (start, stop) in enumerate(itertools.pairwise(contexts.starts)):
        rows[i, contexts.indices if contexts.shared else contexts.indices[start:stop]] = contexts.values[start:stop]
    return rows


def uniforms_of(learner: AnyLearner, rng: np.random.Generator) -> FloatArray:
    """Draw uniforms, including both ends of the interval."""
    uniforms = rng.random((BATCH, uniforms_per_answer(learner)))
    uniforms[0], uniforms[1] = 0.0, 1.0 - 2.0**-53
    return uniforms


# --- the laws


def check_answers(learner: AnyLearner, decisions: Decisions, drawn: Draws) -> None:
    """Check that propensities are in (0, 1], distributions are valid and match them, and evidence is storable."""
    labels, propensities, residual_uniforms = drawn
    P, K = decisions.distributions, learner.problem.n_labels
    assert ((propensities > 0.0) & (propensities <= 1.0)).all()
    assert ((residual_uniforms >= 0.0) & (residual_uniforms < 1.0)).all()
    assert ((labels >= 0) & (labels < K)).all()
    assert np.isfinite(decisions.evidence).all()
    assert ((P >= 0.0) & (P <= 1.0)).all()
    if not is_structured(learner):
        assert np.abs(P.sum(axis=1) - 1.0).max() <= 1e-9
        assert (P[np.arange(BATCH), labels] == propensities).all()


def states_of_run(learner: AnyLearner, n_batches: int, seed: int) -> Iterator[Any]:
    """Run a learner and check every batch; yield the state after each fold."""
    rng, state, waiting = np.random.default_rng(seed), learner.init(), []
    for number in range(n_batches):
        contexts = contexts_of(learner, rng, number)
        decisions = learner.decide(state, contexts)
        drawn = Draws(*draw_answers(learner, decisions, uniforms_of(learner, rng)))
        check_answers(learner, decisions, drawn)
        truth = truths_of(learner, rng, drawn.labels, dense(contexts, learner.problem.n_features), number)
        correct = same_rows(drawn.labels, truth)
        rounds = Rounds.of_bits(
            contexts, drawn.labels, drawn.propensities, correct, truth, decisions.evidence, drawn.residual_uniforms
        )
        waiting.append((number + DELAYS[number % len(DELAYS)], rounds))
        for due in [one for one in waiting if one[0] <= number]:
            state = learner.fold(state, due[1])
            waiting.remove(due)
        yield state


def check_is_readable(learner: AnyLearner, state: Any) -> None:
    """Check that an encoded state decodes to the same bits."""
    assert is_finite(state)
    assert bits(codec.decode_state(learner, codec.encode_state(learner, state))) == bits(state)


def check_long_run(play: Play) -> None:
    """Run as many rounds as the budget allows, with regular round trips through the codec and one at the end."""
    learner = play.learner()
    if learner is None:
        return
    n_batches = rounds_within(learner, play.most) // BATCH
    for number, state in enumerate(states_of_run(learner, n_batches, seed=play.n_labels), start=1):
        if number % (n_batches // SAVES + 1) == 0 or number == n_batches:
            check_is_readable(learner, state)


@pytest.mark.parametrize("play", plays(2_000_000, (7,)), ids=str)
def test_answers_are_probabilities(play: Play) -> None:
    """Answers are probabilities for up to 200 rounds of 7 labels, fewer where a round is expensive."""
    check_long_run(play)


@pytest.mark.slow
@pytest.mark.parametrize("play", plays(3_000_000_000, SIZES), ids=str)
def test_answers_are_probabilities_in_long_runs(play: Play) -> None:
    """Answers are probabilities for 100,000 rounds of 2 to 200 labels, or as many as 3·10⁹ multiply-adds allow."""
    check_long_run(play)


def check_extremes(cls: type[Any], bound: float, n_random: int, n_batches: int) -> None:
    """Run with all hyperparameters at the ends of their ranges, with a round trip through the codec after each fold."""
    for learner in extreme_learners(cls, bound, n_random):
        try:
            for state in states_of_run(learner, n_batches, seed=5):
                check_is_readable(learner, state)
        except Exception as error:
            raise AssertionError(f"{learner}: {error}") from error


EACH_LEARNER = pytest.mark.parametrize("cls", ALL_LEARNERS.values(), ids=lambda cls: str(cls.algorithm))
EACH_BOUND = pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])


@EACH_BOUND
@EACH_LEARNER
def test_extreme_hyperparameters_keep_answers_valid(cls: type[Any], bound: float) -> None:
    """With hyperparameters at their extremes, for three batches, states decode and answers are probabilities."""
    check_extremes(cls, bound, n_random=3, n_batches=3)


@pytest.mark.slow
@EACH_BOUND
@EACH_LEARNER
def test_extreme_hyperparameters_keep_answers_valid_in_long_runs(cls: type[Any], bound: float) -> None:
    """With more combinations of extremes, states decode and answers are probabilities for 2,000 rounds."""
    check_extremes(cls, bound, n_random=20, n_batches=100)
