"""Fenchel-Young descent checked by hand: the theorems' steps, their bounds, and the tracked norm."""

import math
from typing import Any

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.base import NO_LABEL, Contexts, Problem, Rounds
from tests.learners.arrays import assert_close
from tests.learners.worlds import pick, random_rounds

# For sets of four labels with λ = 8 and X = 3, γ = 1/2, ν = 1 and the diameter is 2.
A, B = 3 / 4, 9 / 4


@pytest.mark.parametrize(
    ("rate", "step", "bound"),
    [
        ("theorem", 1.0 / B, (1.0 - A) * B * 25.0),  # m = min(1/2, a) = 1/2
        ("high-probability", A / B, ((1.0 - A) * B * 25.0 / (1.0 - A / 2.0) + math.log(50.0)) / A),
        ("adaptive", 6.0 / math.sqrt(5.0), 2.0 * (1.0 - A) * B * (2.0 * 6.0) ** 2 / A),  # a step as long as the radius
    ],
)
def test_steps_and_bounds_match_hand_computation(rate: Any, step: float, bound: float) -> None:
    """Theorems 4.2 and 4.3 and Appendix E.1, for a U of norm 5 and failure probability 0.02."""
    ball: dict[str, Any] = {"radius": 6.0} if rate == "adaptive" else {}
    learner = FenchelYoungMultilabel(problem=Problem(4, 4, 3.0), regularization=8.0, learning_rate=rate, **ball)
    x, truth, ones = np.array([1.0, 0.0, 0.0, -2.0]), np.array([[0, 1, 0, 0]]), np.ones(1)
    one = Rounds.of_bits(Contexts.dense(x), 1 - truth, ones, ones < 0, truth, np.zeros((1, 4)), 0.0 * ones)
    assert_close(learner.weights(learner.fold(learner.init(), one)), step * np.outer(truth[0], x), 1e-12)
    assert learner.regret_bound(5.0, failure=0.02) == pytest.approx(bound)
    if rate == "high-probability":
        with pytest.raises(ValueError, match="failure"):
            learner.regret_bound(5.0)


def test_norm_is_recomputed_every_65536_rounds() -> None:
    """The tracked norm is recomputed from the direction, so that rounding errors do not accumulate."""
    learner = FenchelYoung(problem=Problem(3, 2))
    unknown = random_rounds(1, 2, learner)._replace(true_labels=np.array([NO_LABEL, NO_LABEL]))
    drifted = learner.init()._replace(direction=np.full((2, 3), 0.5), squared_norm=np.array(7.0))
    state = learner.fold(drifted._replace(rounds=np.array(65_534)), pick(unknown, [0]))
    assert state.squared_norm == 7.0
    assert learner.fold(state, pick(unknown, [1])).squared_norm == 6 * 0.5**2


def test_bet_is_a_fraction_of_the_whole_wealth() -> None:
    """W = v · wealth · u / X, also at a large wealth."""
    learner = FenchelYoung(problem=Problem(3, 2, 4.0), learning_rate="parameter-free")
    u = np.array([[0.1, -0.2, 0.1], [0.3, 0.0, -0.3]])
    state = learner.init()._replace(direction=u, wealth=np.array(7.0), fraction=np.array(0.25))
    assert_close(learner.weights(state), 0.25 * 7.0 * u.T / 4.0, 1e-15)
