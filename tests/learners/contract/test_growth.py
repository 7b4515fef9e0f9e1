"""Labels added to a learner: what was learnt stays, and the new label is learned."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.base import AnyLearner, BoolArray, Contexts, InvalidStateError, Rounds
from learners.evaluation.simulation import simulate
from learners.growth import grown, with_more_labels
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.contract.lives import Life, N, has_layout, only_cases, only_for
from tests.learners.contract.subsets import is_free_of_n_labels, separable
from tests.learners.contract.test_eligible import label_columns

FIXED = {
    "adaboost-olm", "adahedge", "bandit-reduction", "folklore-bandit", "soba-newton", "fenchel-young-ordinal",
    "fenchel-young-multilabel", "fenchel-young-ranking",
}  # fmt: skip


def grow(life: Life) -> tuple[AnyLearner, Any]:
    larger = grown(life.learner, life.learner.problem.n_labels + 2)
    return larger, with_more_labels(life.learner, larger, life.state)


def of_fewer_labels(rounds: Rounds, learner: AnyLearner, n_labels: int) -> Rounds:
    """Convert rounds of the first n_labels labels to rounds of a learner with more labels, the others ineligible."""
    eligible = rounds.eligible if rounds.eligible.shape[1] else np.ones((rounds.n, n_labels), np.bool_)
    return rounds._replace(
        evidence=widened(rounds.evidence, learner.evidence_size), eligible=widened(eligible, learner.problem.n_labels)
    )


def widened(rows: Any, width: int) -> Any:
    return np.pad(rows, ((0, 0), (0, max(0, width - rows.shape[1]))))


def old_labels(n: int) -> BoolArray:
    return np.tile(np.arange(6) < 4, (n, 1))


def test_only_known_learners_have_fixed_labels() -> None:
    assert {name for name, cls in ALL_LEARNERS.items() if not cls.labels_grow} == FIXED


@only_for(lambda learner: not learner.labels_grow)
def test_fixed_labels_are_refused(life: Life) -> None:
    with pytest.raises(InvalidStateError, match=f"labels of {life.learner.algorithm} are fixed"):
        grown(life.learner, 6)


@only_for(lambda learner: learner.labels_grow)
def test_growth_keeps_what_was_learnt(life: Life) -> None:
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
        and not case.learner.algorithm.startswith(("soba", "newton", "folklore"))
        and not case.hyperparameters.get("radius")
        and "restart_risk" not in case.hyperparameters
    )
)
def test_rounds_before_growth_leave_new_labels_alone(life: Life) -> None:
    larger, state = grow(life)
    before = [label_columns(larger, state, k) for k in (4, 5)]
    state = larger.fold(state, of_fewer_labels(life.rounds, larger, 4))
    assert [label_columns(larger, state, k) for k in (4, 5)] == before


@only_for(lambda learner: learner.labels_grow)
def test_new_labels_are_learned(life: Life) -> None:
    larger, state = grow(life)
    stream = separable(larger, 4, 1500)
    result = simulate(larger, *stream[:2], stream.uniforms, state)
    assert is_finite(result.state)
    slow = life.learner.algorithm in {"uniform", "soba", "soba-low-rank", "soba-diagonal"} or life.case.hyperparameters
    assert slow or (result.labels == 4)[stream.truth == 4][-50:].mean() > 0.5


def test_growth_checks_its_learners(life: Life) -> None:
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
