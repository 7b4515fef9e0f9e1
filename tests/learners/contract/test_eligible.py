"""Decisions and updates with subsets of eligible labels."""

from typing import Any, get_type_hints

import numpy as np
import pytest

from learners.answers import is_structured
from learners.base import AnyLearner, Contexts, InvalidArrayError, Problem
from learners.evaluation.simulation import simulate
from learners.learner import CompiledLearner
from learners.mathematics.exploration import draw
from tests.learners.arrays import assert_close, bits, copied, is_finite, matrix
from tests.learners.contract.lives import PROBLEM, Life, N, only_cases, only_for
from tests.learners.contract.reorderings import permuted
from tests.learners.contract.subsets import is_free_of_n_labels, separable, some_subsets
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import pick

ONE_LABEL = [case for case in IMPLEMENTATIONS if not is_structured(case.at(PROBLEM))]
BY_ALGORITHM = {case.learner.algorithm: case for case in reversed(ONE_LABEL)}


def decide_subsets(life: Life, seed: int = 5) -> tuple[Any, Any]:
    eligible = some_subsets(np.random.default_rng(seed), N, life.learner.problem.n_labels)
    return eligible, life.learner.decide(life.state, life.rounds.contexts, eligible)


@only_for(lambda learner: not is_structured(learner))
def test_every_label_eligible_changes_no_bit(life: Life) -> None:
    whole = np.ones((N, life.learner.problem.n_labels), np.bool_)
    one, two, three = (
        life.learner.decide(life.state, life.rounds.contexts, among) for among in (None, whole[:, :0], whole)
    )
    assert bits(one) == bits(two) == bits(three)
    folded = life.learner.fold(life.learner.init(), life.rounds._replace(eligible=whole))
    assert bits(folded) == bits(life.state)


@only_for(lambda learner: not is_structured(learner))
def test_subsets_have_distributions(life: Life) -> None:
    eligible, (distributions, evidence) = decide_subsets(life)
    assert not distributions[~eligible].any()
    assert distributions.min() >= 0.0
    assert_close(distributions.sum(axis=1), np.ones(N), 1e-12)
    counts = eligible.sum(axis=1)
    shares = life.case.least_exploration / counts[:, None] * (1 - 1e-12)
    assert (distributions >= np.where(eligible, shares, 0.0)).all()
    alone = counts == 1
    assert alone.any()
    assert (distributions[alone].max(axis=1) == 1.0).all()
    assert np.isfinite(evidence).all()
    if life.learner.evidence_size == eligible.shape[1] > 1:
        assert not evidence[~eligible].any()


@only_for(lambda learner: not is_structured(learner))
def test_draws_from_subsets_have_their_propensities(life: Life) -> None:
    eligible, (distributions, _) = decide_subsets(life)
    grid = (np.arange(2000) + 0.5) / 2000
    for p, among in zip(distributions[:5], eligible[:5], strict=True):
        labels, propensities, _ = draw(np.tile(p, (len(grid), 1)), grid)
        assert among[labels].all()
        assert_close(np.bincount(labels, minlength=len(p)) / len(grid), p, 1.01 / len(grid))
        weights = np.bincount(labels, 1.0 / propensities, len(p)) / len(grid)
        assert_close(weights[p > 0.02], np.ones((p > 0.02).sum()), 0.06)


def _as_smaller(case: Case, life: Life, labels: Any) -> tuple[AnyLearner, Any]:
    problem = Problem(len(labels), PROBLEM.n_features)
    features = np.arange(PROBLEM.n_features)
    return case.at(problem), permuted(life.learner, life.state, labels, features)


def _could_be_smaller(case: Case) -> bool:
    return is_free_of_n_labels(case) and not case.n_labels and case.learner.algorithm != "soba-low-rank"


@only_cases(lambda case: not is_structured(case.at(PROBLEM)) and _could_be_smaller(case))
def test_subset_follows_the_rule_of_a_smaller_learner(life: Life) -> None:
    contexts = life.rounds.contexts
    for labels in (np.array([0, 2]), np.array([1, 2, 3])):
        among = np.tile(np.isin(np.arange(4), labels), (N, 1))
        smaller, state = _as_smaller(life.case, life, labels)
        expected = smaller.decide(state, contexts).distributions
        assert_close(life.learner.decide(life.state, contexts, among).distributions[:, labels], expected, 1e-10)


_MOVES_OTHERS = {"soba", "soba-low-rank", "soba-newton", "newtron"}
"""Learners whose matrices couple the labels: a step moves all of them."""


def _keeps_labels_apart(case: Case) -> bool:
    return (
        case.learner.algorithm not in _MOVES_OTHERS
        and not case.n_labels
        and not case.hyperparameters.get("radius")
        and "restart_risk" not in case.hyperparameters
    )


def label_columns(learner: AnyLearner, state: Any, label: int) -> list[float]:
    hints = get_type_hints(learner.state_type, include_extras=True)
    found: list[float] = []
    for name, hint in hints.items():
        for axis, symbol in enumerate(hint.__metadata__[0].shape):
            if symbol in ("K", "n_scores"):
                found.extend(np.take(getattr(state, name), label, axis).ravel().tolist())
    return found


@only_cases(lambda case: not is_structured(case.at(PROBLEM)) and _keeps_labels_apart(case))
def test_updates_leave_other_labels_alone(life: Life) -> None:
    before, among = copied(life.state), np.tile(np.array([True, False, True, True]), (N, 1))
    evidence = life.learner.decide(before, life.rounds.contexts, among).evidence
    spared = (life.rounds.labels != 1) & (life.rounds.true_labels != 1)
    rounds = pick(life.rounds._replace(eligible=among, evidence=evidence), np.flatnonzero(spared))
    after = life.learner.fold(copied(before), rounds)
    assert label_columns(life.learner, after, 1) == label_columns(life.learner, before, 1)
    rarely_learns = life.learner.algorithm == "uniform" or hasattr(life.learner, "base_learner")
    assert rarely_learns or bits(after._replace(rounds=before.rounds)) != bits(before)


@pytest.mark.parametrize("case", BY_ALGORITHM.values(), ids=BY_ALGORITHM)
def test_learns_from_random_subsets(case: Case) -> None:
    learner = case.at(PROBLEM)
    n = 20_000 if isinstance(learner, CompiledLearner) else 5_000
    stream = separable(learner, 3, n)
    result = simulate(learner, stream.contexts, stream.truth, stream.uniforms, eligible=stream.eligible)
    assert is_finite(result.state)
    assert stream.eligible[np.arange(n), result.labels].all()
    tail = slice(3 * n // 4, n)
    by_chance = float(np.sum(1.0 - 1.0 / stream.eligible[tail].sum(axis=1)))
    assert result.mistakes[tail].sum() < (1.1 if learner.algorithm == "uniform" else 0.5) * by_chance


@only_for(lambda learner: not is_structured(learner))
def test_bad_subsets_are_refused(life: Life) -> None:
    contexts, K = Contexts.dense(matrix(life.rounds.contexts)[:3]), life.learner.problem.n_labels
    empty = np.ones((3, K), np.bool_)
    empty[1] = False
    wrong: list[Any] = [np.ones((3, K + 1), np.bool_), np.ones((2, K), np.bool_), np.ones((3, K)), empty, [[True] * K]]
    for among in wrong:
        with pytest.raises(InvalidArrayError, match=r"^eligible"):
            life.learner.decide(life.state, contexts, among)


@only_for(is_structured)
def test_structured_learners_refuse_subsets(life: Life) -> None:
    among = np.ones((N, life.learner.problem.n_labels), np.bool_)
    with pytest.raises(InvalidArrayError, match=r"^eligible"):
        life.learner.decide(life.state, life.rounds.contexts, among)
    with pytest.raises(InvalidArrayError, match=r"^eligible"):
        life.learner.fold(copied(life.state), life.rounds._replace(eligible=among))
