"""Maintained inverses: they do not drift, and are rebuilt if they do."""

import math
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest

from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.base import AnyLearner, FloatArray, Problem, Rounds
from learners.mathematics.inverse import CHECK_EVERY, LARGEST_GROWTH, rebuild
from learners.new_models import check_new
from tests.learners.arrays import assert_close, bits, copied, is_finite, matrix, pack, soba_inverse, unit_rows, unpacked
from tests.learners.worlds import pick, random_rounds

PROBLEM = Problem(3, 5)


class KeptInverse(NamedTuple):
    matrix: FloatArray  # (n, n), A
    inverse: FloatArray  # (n, n)
    theta: FloatArray  # (n,)
    w: FloatArray  # (n,)

    def error(self) -> float:
        """Return the largest absolute entry of A⁻¹A - I."""
        return float(np.abs(self.inverse @ self.matrix - np.eye(len(self.w))).max())


def kept_inverse(state: Any) -> KeptInverse:
    if hasattr(state, "theta"):
        columns = state.theta.T.ravel(), state.weights.T.ravel()
        return KeptInverse(unpacked(state.matrix), unpacked(state.inverse), *columns)
    return KeptInverse(
        unpacked(state.matrices[0]), unpacked(state.inverses[0]), state.targets[:, 0], state.weights[:, 0]
    )


def damaged(state: Any, sign: float) -> Any:
    name = "inverse" if hasattr(state, "inverse") else "inverses"
    changed = copied(state)
    getattr(changed, name)[...] *= sign * 0.5
    return changed


def accepted_rounds(learner: AnyLearner, seed: int, n: int, propensity: float) -> Rounds:
    rng = np.random.default_rng(seed)
    rounds = random_rounds(seed, n, learner)
    x = learner.problem.norm_bound * unit_rows(rng, n, learner.problem.n_features)
    rounds.contexts.values[:] = x.ravel()
    labels, right = np.zeros(n, np.int64), np.ones(n, np.bool_)
    return rounds._replace(
        labels=labels,
        propensities=np.full(n, propensity),
        correct=right,
        rewards=right.astype(np.float64),
        true_labels=labels,
    )


def lenient(learner: AnyLearner) -> Any:
    state = learner.init()
    if hasattr(state, "margin_sum"):
        state.margin_sum[()] = 1e9
    return state


LEARNERS = [Soba(problem=PROBLEM, exploration=0.1), EpsilonGreedyRidge(problem=PROBLEM)]
EACH = pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: str(one.algorithm))


@EACH
def test_matrix_is_the_sum_of_the_updates(learner: AnyLearner) -> None:
    """A is the inverse of A⁻¹ and A w = θ after any number of updates, at a check and between checks."""
    state, rounds = lenient(learner), accepted_rounds(learner, 1, CHECK_EVERY + 20, 0.1)
    for t in range(rounds.n):
        state = learner.fold(state, pick(rounds, [t]))
        if t % 40 == 0 or t >= CHECK_EVERY - 2:
            one = kept_inverse(state)
            assert one.error() <= 1e-9
            assert_close(one.matrix @ one.w, one.theta, 1e-9)


@EACH
def test_damaged_inverse_is_rebuilt(learner: AnyLearner) -> None:
    """The update at which a check is due makes A⁻¹ and w exact again."""
    rounds = accepted_rounds(learner, 2, CHECK_EVERY, 0.1)
    state = learner.fold(lenient(learner), pick(rounds, np.arange(CHECK_EVERY - 1)))
    state = damaged(state, 1.0)
    assert kept_inverse(state).error() >= 0.4
    one = kept_inverse(learner.fold(state, pick(rounds, [CHECK_EVERY - 1])))
    assert one.error() <= 1e-9
    assert_close(one.w, np.linalg.solve(one.matrix, one.theta), 1e-9)


@EACH
def test_indefinite_inverse_is_rebuilt_early(learner: AnyLearner) -> None:
    state = damaged(learner.fold(lenient(learner), accepted_rounds(learner, 3, 60, 0.1)), -1.0)
    state = learner.fold(state, accepted_rounds(learner, 4, 60, 0.1))
    assert is_finite(state)
    assert kept_inverse(state).error() <= 1e-9


@EACH
def test_rebuilds_do_not_depend_on_the_batch(learner: AnyLearner) -> None:
    rounds = accepted_rounds(learner, 5, 3 * CHECK_EVERY, 0.02)
    start = damaged(learner.fold(lenient(learner), accepted_rounds(learner, 6, 100, 0.1)), 1.0)
    whole = learner.fold(copied(start), rounds)
    for size in (1, 7):
        state = copied(start)
        for first in range(0, rounds.n, size):
            state = learner.fold(state, pick(rounds, np.arange(first, min(first + size, rounds.n))))
        assert bits(state) == bits(whole)


def hardest(K: int, d: int, gamma: float) -> Soba:
    a = K / (gamma * LARGEST_GROWTH) * (1.0 + 1e-12)
    learner = Soba(problem=Problem(K, d), regularization=a, exploration=gamma)
    check_new(learner)
    return learner


@pytest.mark.parametrize(("K", "d", "gamma"), [(3, 5, 1e-6), (2, 8, 0.02)])
def test_inverse_does_not_drift_at_the_bound_of_new_models(K: int, d: int, gamma: float) -> None:
    """With every round correct at the least propensity, A⁻¹A = I to 1e-3 and A⁻¹ > 0 for 60,000 rounds."""
    learner = hardest(K, d, gamma)
    state = learner.init()
    for seed in range(30):
        rounds = random_rounds(seed, 2000, learner)
        rounds = rounds._replace(
            propensities=np.full(2000, gamma / K), correct=np.ones(2000, np.bool_), rewards=np.ones(2000)
        )
        state = learner.fold(state, rounds)
        one = kept_inverse(state)
        assert one.error() <= 1e-3
        assert np.linalg.eigvalsh(one.inverse).min() > 0.0
    assert int(state.updates) > 5000


REFUSED: list[AnyLearner] = [
    Soba(problem=Problem(3, 5, 30.0), regularization=1e-6, exploration=0.02),
    Soba(problem=Problem(3, 5), regularization=1e-6, exploration=1e-6),
    Soba(problem=Problem(3, 5, 1e4)),
    SobaLowRank(problem=Problem(3, 5, 30.0), regularization=1e-6, exploration=0.02),
    EpsilonGreedyRidge(problem=Problem(3, 5, 1e4), regularization=0.5),
]


@pytest.mark.parametrize("learner", REFUSED, ids=str)
def test_new_models_need_enough_regularization(learner: Any) -> None:
    """New models with X²K/(γa) above 1e7 are refused; the error names a sufficient a. Definitions still build."""
    with pytest.raises(pydantic.ValidationError, match="use a regularization of at least") as error:
        check_new(learner)
    assert error.value.errors()[0]["loc"] == ("regularization",)
    least = float(str(error.value).split("at least ")[1].split(",")[0])
    fields = {"regularization": least * 1.01}
    if least <= 1e6:
        check_new(type(learner)(problem=learner.problem, exploration=learner.exploration, **fields))


def test_default_regularization_is_accepted() -> None:
    for K in (2, 20, 200):
        for cls in (Soba, SobaLowRank, EpsilonGreedyRidge):
            check_new(cls(problem=Problem(K, 3, 25.0)))


def test_rebuild_of_an_indefinite_matrix_is_positive() -> None:
    inverse, w = np.zeros(3), np.zeros(2)
    rebuild(pack(np.array([[1e18, 1e18], [1e18, 1e18 - 128.0]])), np.ones(2), 1.0, inverse, w)
    assert math.isfinite(float(np.abs(inverse).sum() + np.abs(w).sum()))
    assert np.diag(unpacked(inverse)).min() > 0.0


def test_low_rank_soba_is_accurate_at_the_bound() -> None:
    """At the bound of new models, low-rank SOBA's A⁻¹ matches that of SOBA on the same rounds, to 1e-3."""
    a = 3 / (1e-6 * LARGEST_GROWTH) * (1.0 + 1e-12)
    learner = SobaLowRank(problem=Problem(3, 5), regularization=a, exploration=1e-6, max_updates=600)
    check_new(learner)
    rounds = random_rounds(1, 3000, learner)
    rounds = rounds._replace(
        propensities=np.full(3000, 1e-6 / 3), correct=np.ones(3000, np.bool_), rewards=np.ones(3000)
    )
    twin = Soba(problem=Problem(3, 5), regularization=a, exploration=1e-6)
    state, other = learner.init(), twin.init()
    while int(other.updates) < 600:
        some = pick(rounds, np.arange(int(state.rounds), int(state.rounds) + 20))
        state, other = learner.fold(state, some), twin.fold(other, some)
    few = matrix(rounds.contexts)[:1]
    assert len(few) == 1
    assert_close(soba_inverse(state, a) * a, kept_inverse(other).inverse * a, 1e-3)
