"""Small worlds to run learners in, and the rounds that result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import settings

from learners.answers import answer_kind, draw_answers, is_structured, uniforms_per_answer
from learners.base import AnyLearner, Contexts, FloatArray, IntArray, Problem, Rounds
from tests.learners.arrays import copied, matrix, same_rows, unit_rows

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
"""Settings of every property-based test: the same examples each time, no time limit."""


class World(NamedTuple):
    contexts: FloatArray  # (n, d)
    truth: IntArray  # (n,), or (n, K) for a structured learner
    uniforms: FloatArray  # (n,), or (n, uniforms per answer)


class Step(NamedTuple):
    before: Any
    distribution: FloatArray  # (K,), or what a structured learner reports
    round: Rounds  # a single one
    after: Any


def make_world(seed: int, n: int, problem: Problem, noise: float = 0.1) -> World:
    """Draw contexts (n, d) with norms up to X and labels from a random linear teacher, some of them random."""
    rng = np.random.default_rng(seed)
    x = unit_rows(rng, n, problem.n_features) * problem.norm_bound * rng.uniform(0.2, 1.0, n)[:, None]
    truth = (x @ rng.normal(size=(problem.n_features, problem.n_labels))).argmax(axis=1)
    noisy = rng.random(n) < noise
    truth[noisy] = rng.integers(0, problem.n_labels, noisy.sum())
    return World(x, truth, rng.random(n))


def world_for(learner: AnyLearner, seed: int, n: int) -> World:
    world = make_world(seed, n, learner.problem)
    if not is_structured(learner):
        return world
    rng = np.random.default_rng(seed)
    return world._replace(truth=some_answers(learner, rng, n), uniforms=rng.random((n, uniforms_per_answer(learner))))


def some_answers(learner: Any, rng: np.random.Generator, n: int) -> IntArray:
    """Draw answers (n, K) for a structured learner, random but with many repeats."""
    K = learner.problem.n_labels
    if answer_kind(learner) == "ranking":
        return np.argsort(np.arange(K) + rng.normal(size=(n, K)), axis=1)
    rows = (rng.random((n, K)) < np.linspace(0.2, 0.9, K)).astype(np.int64)
    if not learner.possible(rows).all():
        rows = np.concatenate([rows, (rng.random((100 * n, K)) < 0.5).astype(np.int64)])
    possible: IntArray = rows[learner.possible(rows)]
    return possible[:n]


def other_answers(learner: AnyLearner, labels: IntArray) -> IntArray:
    match answer_kind(learner):
        case "ranking":
            return labels[:, ::-1]
        case "label-set":
            return 1 - labels
        case _:
            return (labels + 1) % learner.problem.n_labels


def two_clusters(seed: int, n: int, noise: float) -> World:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    angles = np.pi * labels + rng.uniform(-0.3, 0.3, n)
    truth = np.where(rng.random(n) < noise, 1 - labels, labels)
    return World(np.stack([np.cos(angles), np.sin(angles)], axis=1), truth, rng.random(n))


def play(learner: AnyLearner, world: World, state: Any = None) -> Iterator[Step]:
    state = learner.init() if state is None else state
    for t in range(len(world.truth)):
        contexts = Contexts.dense(world.contexts[t : t + 1])
        decisions = learner.decide(state, contexts)
        uniforms = world.uniforms[t : t + 1].reshape(1, -1)
        labels, propensities, residual_uniforms = draw_answers(learner, decisions, uniforms)
        truth = world.truth[t : t + 1]
        correct = same_rows(labels, truth)
        rounds = Rounds.of_bits(contexts, labels, propensities, correct, truth, decisions.evidence, residual_uniforms)
        after = learner.fold(copied(state), rounds)
        yield Step(state, decisions.distributions[0], rounds, after)
        state = after


def expected_mistakes(learner: AnyLearner, world: World) -> float:
    distributions = np.array([step.distribution for step in play(learner, world)])
    return float(np.sum(1.0 - distributions[np.arange(len(world.truth)), world.truth]))


def largest_mean(
    mistakes: Callable[[Any, World], float], learner: AnyLearner, world: World, draws: FloatArray
) -> float:
    found = np.array([mistakes(learner, world._replace(uniforms=uniforms)) for uniforms in draws])
    return float(found.mean() + 4 * found.std(ddof=1) / np.sqrt(len(found)))


def random_rounds(seed: int, n: int, learner: AnyLearner, least_propensity: float = 0.01) -> Rounds:
    rng = np.random.default_rng(seed)
    K, d, X = learner.problem.n_labels, learner.problem.n_features, learner.problem.norm_bound
    labels, correct, contexts = rng.integers(0, K, n), rng.random(n) < 0.5, Contexts.dense(X * unit_rows(rng, n, d))
    propensities = rng.uniform(least_propensity, 1.0, n)
    truths = np.where(correct, labels, (labels + rng.integers(1, K, n)) % K)
    if is_structured(learner):
        labels, truths = some_answers(learner, rng, n), some_answers(learner, rng, n)
    return Rounds.of_bits(
        contexts=contexts,
        labels=labels,
        propensities=propensities,
        correct=same_rows(labels, truths),
        true_labels=truths,
        evidence=rng.normal(size=(n, learner.evidence_size)),
        residual_uniforms=rng.random(n),
    )


def one_round(
    x: Sequence[float] | FloatArray,
    label: int,
    propensity: float,
    truth: int,
    evidence: FloatArray,
    residual_uniform: float = 0.5,
) -> Rounds:
    return Rounds.of_bits(
        Contexts.dense(np.asarray(x, dtype=np.float64)),
        np.array([label], dtype=np.int64),
        np.array([propensity], dtype=np.float64),
        np.array([label == truth]),
        np.array([truth], dtype=np.int64),
        evidence.reshape(1, -1),
        np.array([residual_uniform]),
    )


def pick(rounds: Rounds, which: npt.ArrayLike) -> Rounds:
    chosen = np.asarray(which, dtype=np.int64)
    columns: list[Any] = [np.ascontiguousarray(column[chosen]) for column in rounds[1:]]
    return Rounds(Contexts.dense(matrix(rounds.contexts)[chosen]), *columns)


def join(steps: Sequence[Step]) -> Rounds:
    columns = [np.concatenate(column) for column in zip(*(step.round[1:] for step in steps), strict=True)]
    return Rounds(Contexts.dense(np.concatenate([matrix(step.round.contexts) for step in steps])), *columns)
