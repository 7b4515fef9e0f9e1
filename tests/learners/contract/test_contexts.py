"""Contexts: largest, smallest, sparse, and with features and labels in another order."""

import numpy as np
import pydantic
import pytest

from learners.answers import answer_kind, is_structured
from learners.base import AnyLearner, Contexts, IntArray, Problem
from tests.learners.arrays import as_sparse, assert_close, copied, in_order, is_finite, matrix
from tests.learners.contract.lives import Life, decide_rounds
from tests.learners.contract.reorderings import chooses_by_place, permuted
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import World, make_world, play, world_for

BOUNDS = (1e-6, 1.0, 1e6)
_UNIT_BALL = {"bandit-perceptrons-kernel", "bandit-perceptrons-features"}
REFUSED: dict[float, set[str]] = {
    1e-6: _UNIT_BALL,
    1.0: set(),
    1e6: {"soba", "soba-low-rank", "soba-newton", "newtron", "epsilon-greedy-ridge"} | _UNIT_BALL,
}
"""Learners that refuse a norm bound: they would lose precision, or have a kernel for the unit ball only."""


def takes(case: Case, bound: float) -> bool:
    """Check whether the implementation accepts this norm bound."""
    try:
        case.at(Problem(4, 5, bound))
    except pydantic.ValidationError:
        return False
    return True


TAKEN = [(case, bound) for bound in BOUNDS for case in IMPLEMENTATIONS if takes(case, bound)]


@pytest.mark.parametrize("bound", BOUNDS)
def test_only_known_learners_refuse_a_norm_bound(bound: float) -> None:
    """The learners that refuse a bound are the listed ones, so the test below leaves out no other."""
    taken = [case for case, taken in TAKEN if taken == bound]
    assert {case.learner.algorithm for case in IMPLEMENTATIONS if case not in taken} == REFUSED[bound]


@pytest.mark.parametrize(("case", "bound"), TAKEN, ids=lambda one: f"{one:g}" if isinstance(one, float) else str(one))
def test_extreme_contexts_keep_the_state_finite(case: Case, bound: float) -> None:
    """Zero, one-hot and largest contexts give finite states and valid distributions."""
    learner = case.at(Problem(4, 5, bound))
    world = world_for(learner, 11, 155)
    some = world.contexts[:120]
    norms = np.linalg.norm(some, axis=1, keepdims=True)
    x = np.concatenate([np.zeros((5, 5)), np.tile(np.eye(5) * bound, (6, 1)), some * bound / norms])
    rng = np.random.default_rng(5)
    if not is_structured(learner):
        world = World(x, rng.integers(0, learner.problem.n_labels, len(x)), rng.random(len(x)))
    for step in play(learner, world._replace(contexts=x)):
        assert is_finite(step.after)
        assert is_structured(learner) or abs(step.distribution.sum() - 1.0) <= 1e-12
        assert step.distribution.min(initial=0.0) >= 0.0
        assert 0.0 < step.round.propensities[0] <= 1.0


def test_sparse_contexts_equal_dense_ones(life: Life) -> None:
    """The same rows, dense or sparse, give the same decisions and state, up to rounding."""
    rows = matrix(life.rounds.contexts).copy()
    rows[np.random.default_rng(2).random(rows.shape) < 0.5] = 0.0
    dense, sparse = Contexts.dense(rows), as_sparse(Contexts.dense(rows))
    decisions, rounds = decide_rounds(life.learner, life.state, dense, seed=4)
    same = life.learner.decide(life.state, sparse)
    assert_close(tuple(same), tuple(decisions), 1e-12)
    from_sparse = rounds._replace(contexts=sparse, evidence=same.evidence)
    one, two = (life.learner.fold(copied(life.state), r) for r in (from_sparse, rounds))
    assert_close(one, two, 1e-12)


def renamed(learner: AnyLearner, answers: IntArray, labels: IntArray) -> IntArray:
    """Reorder the labels of answers."""
    return answers[:, labels] if answer_kind(learner) == "label-set" else np.argsort(labels)[answers]


@pytest.mark.parametrize(
    ("labels", "features"),
    [([2, 0, 3, 1], [0, 1, 2, 3, 4]), ([0, 1, 2, 3], [3, 0, 4, 1, 2])],
    ids=["labels", "features"],
)
def test_order_of_labels_and_features_does_not_matter(life: Life, labels: list[int], features: list[int]) -> None:
    """Reordered labels or features give reordered decisions and states, as long as no scores tie.

    Labels with fixed roles keep their places, and so do features that a learner chooses by place.
    """
    learner = life.learner
    f = np.arange(len(features)) if chooses_by_place(learner) else np.array(features)
    k = np.array(labels) if life.case.n_labels is None else np.arange(life.case.n_labels)
    x = make_world(23, 40, learner.problem).contexts
    decisions, rounds = decide_rounds(learner, life.state, Contexts.dense(x), seed=6)
    twin_state, twin_x = permuted(learner, life.state, k, f), Contexts.dense(x[:, f])
    twin = learner.decide(twin_state, twin_x)
    if answer_kind(learner) != "ranking":
        assert_close(twin.distributions, decisions.distributions[:, k], 1e-9)
    twin_rounds = rounds._replace(
        contexts=twin_x,
        evidence=twin.evidence,
        labels=renamed(learner, rounds.labels, k),
        true_labels=renamed(learner, rounds.true_labels, k),
    )
    expected = permuted(learner, learner.fold(copied(life.state), rounds), k, f)
    assert_close(in_order(learner.fold(twin_state, twin_rounds)), in_order(expected), 1e-9)
