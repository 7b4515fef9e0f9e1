"""Labels added to a learner: what was learnt stays, and the new label is learned."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.base import AnyLearner, BoolArray, Contexts, InvalidStateError
from learners.growth import grown, of_fewer_labels, with_more_labels
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.contract.lives import Life, N, has_layout, only_cases, only_for
from tests.learners.contract.subsets import is_free_of_n_labels, separable
from tests.learners.contract.test_eligible import label_columns
from tests.learners.worlds import pick

FIXED = {
    "adaboost-olm", "adahedge", "bandit-reduction", "folklore-bandit", "soba-newton", "fenchel-young-ordinal",
    "fenchel-young-multilabel", "fenchel-young-ranking",
}  # fmt: skip

_LATER_STEPS_DEPEND_ON_K = {"folklore", "gaptron", "newtron"}
"""Or, for one of them, a fold depends on the size of its matrix, by rounding."""


def grow(life: Life) -> tuple[AnyLearner, Any]:
    """Add two labels to a life."""
    larger = grown(life.learner, life.learner.problem.n_labels + 2)
    return larger, with_more_labels(life.learner, larger, life.state)


def old_labels(n: int) -> BoolArray:
    """Return the subset of the four old labels among six."""
    return np.tile(np.arange(6) < 4, (n, 1))


def test_only_known_learners_have_fixed_labels() -> None:
    """The learners whose labels cannot grow are the listed ones."""
    assert {name for name, cls in ALL_LEARNERS.items() if not cls.labels_grow} == FIXED


@only_for(lambda learner: not learner.labels_grow)
def test_fixed_labels_are_refused(life: Life) -> None:
    """A learner with fixed labels cannot have more."""
    with pytest.raises(InvalidStateError, match=life.learner.algorithm):
        grown(life.learner, 6)


@only_for(lambda learner: learner.labels_grow)
def test_growth_keeps_what_was_learnt(life: Life) -> None:
    """The grown state fits the larger learner, has the old numbers, and does not share memory with the old state."""
    before = bits(life.state)
    larger, state = grow(life)
    assert has_layout(larger, state)
    for old, new in zip(life.state, state, strict=True):
        assert np.array_equal(old, new[tuple(slice(length) for length in old.shape)])
        assert not np.shares_memory(old, new)
    fresh = larger.init()
    assert all(label_columns(larger, state, k) == label_columns(larger, fresh, k) for k in (4, 5)) or hasattr(
        state, "slots"
    )
    assert bits(life.state) == before


@only_for(lambda learner: learner.labels_grow)
def test_growth_keeps_decisions_among_old_labels(life: Life) -> None:
    """Among the old labels, decisions stay: to the bit if K is in no constant, else with the same leader."""
    larger, state = grow(life)
    before = life.learner.decide(life.state, life.rounds.contexts).distributions
    after = larger.decide(state, life.rounds.contexts, old_labels(N)).distributions[:, :4]
    if is_free_of_n_labels(life.case):
        assert np.array_equal(before, after)
    clear = np.sort(before, axis=1)[:, -1] > np.sort(before, axis=1)[:, -2] + 1e-3
    assert (before.argmax(axis=1) == after.argmax(axis=1))[clear].all()


@only_cases(
    lambda case: (
        case.learner.labels_grow
        and is_free_of_n_labels(case)
        and case.learner.algorithm not in _LATER_STEPS_DEPEND_ON_K
    )
)
def test_growth_before_or_after_rounds_is_the_same(life: Life) -> None:
    """Rounds predicted before labels were added give the same state when they are folded after it."""
    larger, state = grow(life)
    late = of_fewer_labels(life.rounds, larger, 4)
    assert bits(larger.fold(larger.init(), late)) == bits(state)


@only_cases(
    lambda case: (
        case.learner.labels_grow
        and not case.learner.algorithm.startswith(("soba", "newton", "folklore"))
        and not case.hyperparameters.get("radius")
        and "restart_risk" not in case.hyperparameters
    )
)
def test_rounds_before_growth_leave_new_labels_alone(life: Life) -> None:
    """Late rounds, predicted with fewer labels, change no number of a new label."""
    larger, state = grow(life)
    before = [label_columns(larger, state, k) for k in (4, 5)]
    state = larger.fold(state, of_fewer_labels(life.rounds, larger, 4))
    assert [label_columns(larger, state, k) for k in (4, 5)] == before


@only_for(lambda learner: learner.labels_grow)
def test_new_labels_are_learned(life: Life) -> None:
    """After growth, a new label that is right in its own contexts gets answers there; the state stays finite.

    Learners at other settings than their defaults may be slow.
    """
    larger, state = grow(life)
    n = 1500
    stream = separable(larger, 4, n)
    last = stream.truth == 4
    share = []
    for t in range(n):
        one = slice(t, t + 1)
        context = stream.contexts.rows(t, t + 1)
        decisions = larger.decide_unchecked(state, context)
        p = decisions.distributions[0]
        label = min(int(np.searchsorted(np.cumsum(p), stream.uniforms[t], side="right")), 5)
        truth = stream.truth[one]
        rounds = pick(life.rounds, [0])._replace(
            contexts=context,
            labels=np.array([label]),
            propensities=np.maximum(p[label : label + 1], 1e-300),
            correct=truth == label,
            rewards=(truth == label).astype(np.float64),
            true_labels=truth,
            evidence=decisions.evidence,
        )
        state = larger.fold_unchecked(state, rounds)
        if last[t]:
            share.append(p[4])
    assert is_finite(state)
    slow = life.learner.algorithm in {"uniform", "soba", "soba-low-rank", "soba-diagonal"} or life.case.hyperparameters
    assert slow or np.mean(share[-50:]) > 0.5, np.mean(share[-50:])


def test_growth_checks_its_learners(life: Life) -> None:
    """Only the same learner with at least as many labels takes a grown state."""
    if not life.learner.labels_grow:
        with pytest.raises(InvalidStateError):
            with_more_labels(life.learner, life.learner, life.state)
        return
    other = grown(life.learner, 6)
    with pytest.raises(InvalidStateError):
        grown(other, 4)
    same = with_more_labels(life.learner, life.learner, life.state)
    assert bits(same) == bits(copied(life.state))
    with pytest.raises((InvalidStateError, pydantic.ValidationError)):
        with_more_labels(other, life.learner, other.init())
    assert isinstance(life.rounds.contexts, Contexts)
