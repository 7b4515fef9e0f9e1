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
from learners.layouts import state_bytes
from learners.learner import CompiledLearner
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import as_sparse, bits, is_finite, same_rows, unit_rows
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
    case: Case
    n_labels: int
    most: int  # budget in multiply-adds, approximate

    def __str__(self) -> str:
        return f"{self.case}-K{self.n_labels}"

    def learner(self) -> AnyLearner | None:
        try:
            return self.case.at(Problem(self.n_labels, 2 if self.n_labels > 50 else 5))
        except pydantic.ValidationError:
            return None


def plays(most: int, sizes: tuple[int, ...]) -> list[Play]:
    pairs = itertools.product(IMPLEMENTATIONS, sizes)
    return [Play(case, K, most) for case, K in pairs if case.n_labels in (None, K) or sizes[0] == K]


def rounds_within(learner: AnyLearner, most: int) -> int:
    K, d = learner.problem.n_labels, learner.problem.n_features
    python = 0 if isinstance(learner, CompiledLearner) else _IN_PYTHON
    if isinstance(learner, AdaBoostOlm):
        python *= learner.weak_learners
    # A decision costs at most an update in matrix learners, and K·d in the others.
    cost = 2 * learner.fold_cost(d) + learner.decide_cost(d) + K**2 + _OVERHEAD + python
    return max(3 * BATCH, min(LONG, most // cost))


def contexts_of(learner: AnyLearner, rng: np.random.Generator, number: int) -> Contexts:
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
    uniforms = rng.random((BATCH, uniforms_per_answer(learner)))
    uniforms[0], uniforms[1] = 0.0, 1.0 - 2.0**-53
    return uniforms


def check_answers(learner: AnyLearner, decisions: Decisions, drawn: Draws) -> None:
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
    assert is_finite(state)
    assert bits(codec.decode_state(learner, codec.encode_state(learner, state))) == bits(state)


def check_long_run(play: Play) -> None:
    learner = play.learner()
    if learner is None:
        return
    n_batches = rounds_within(learner, play.most) // BATCH
    for number, state in enumerate(states_of_run(learner, n_batches, seed=play.n_labels), start=1):
        if number % (n_batches // SAVES + 1) == 0 or number == n_batches:
            check_is_readable(learner, state)


@pytest.mark.parametrize("play", plays(2_000_000, (7,)), ids=str)
def test_answers_are_probabilities(play: Play) -> None:
    check_long_run(play)


@pytest.mark.slow
@pytest.mark.parametrize("play", plays(3_000_000_000, SIZES), ids=str)
def test_answers_are_probabilities_in_long_runs(play: Play) -> None:
    check_long_run(play)


def check_extremes(cls: type[Any], bound: float, n_random: int, n_batches: int) -> None:
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
    check_extremes(cls, bound, n_random=3, n_batches=3)


@pytest.mark.slow
@EACH_BOUND
@EACH_LEARNER
def test_extreme_hyperparameters_keep_answers_valid_in_long_runs(cls: type[Any], bound: float) -> None:
    check_extremes(cls, bound, n_random=20, n_batches=100)


_ALMOST_ZERO = 1e-12
_LARGEST_COUNT = 50  # cap on counts that cost memory or time: updates, support vectors, weak learners
_LARGEST_STATE = 20_000_000


def ends(field: dict[str, Any]) -> list[Any]:
    if "anyOf" in field:
        return [end for part in field["anyOf"] for end in ends(part)]
    match field.get("type"):
        case "null":
            return [None]
        case "boolean":
            return [False, True]
        case "string":
            return list(field.get("enum", [field.get("const")]))
        case "integer":
            most = field["maximum"]
            return [field["minimum"], most if most == 2**53 else min(most, _LARGEST_COUNT)]
        case _:
            least = field.get("minimum", _ALMOST_ZERO)
            return [float(least), float(field.get("maximum", 2.0 - 1e-9))]


def extremes(cls: type[Any], seed: int, n_random: int) -> Iterator[dict[str, Any]]:
    schema = pydantic.TypeAdapter(cls).json_schema()["properties"]
    choices = {name: ends(field) for name, field in schema.items() if name != "problem"}
    yield from ({name: value} for name, values in choices.items() for value in values)
    rng = np.random.default_rng(seed)
    for _ in range(n_random if choices else 0):
        yield {name: values[rng.integers(len(values))] for name, values in choices.items()}


def built(cls: type[Any], problem: Problem, fields: dict[str, Any]) -> AnyLearner | None:
    try:
        learner: AnyLearner = cls(problem=problem, **fields)
    except pydantic.ValidationError:
        return None
    return learner if state_bytes(learner) <= _LARGEST_STATE else None


def extreme_learners(cls: type[Any], norm_bound: float, n_random: int) -> list[AnyLearner]:
    cases = itertools.product((Problem(3, 4, norm_bound), Problem(7, 2, norm_bound)), extremes(cls, 1, n_random))
    found = (built(cls, problem, fields) for problem, fields in cases)
    return [learner for learner in found if learner is not None]
