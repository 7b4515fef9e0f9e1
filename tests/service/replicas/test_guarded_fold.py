"""The laws of folding rounds that may be damaged: a state never has infinity or NaN."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import AnyLearner, Contexts, Problem, Rounds, State
from service.choice.prices import Bills
from service.replicas.guarded_fold import learn
from tests.learners.arrays import bits, copied

PROBLEM = Problem(3, 2)
N, BAD = 6, 3


class Alone(NamedTuple):
    learner: AnyLearner

    def fold_unchecked(self, state: State, rounds: Rounds, _: Bills | None, /) -> State:
        return self.learner.fold_unchecked(state, rounds)


def rounds_with(learner: AnyLearner, **damage: float) -> Rounds:
    x, p, labels = np.full((N, 2), 0.5), np.full(N, 0.5), np.arange(N) % 3
    evidence = learner.decide(learner.init(), Contexts.dense(x)).evidence
    x[BAD], p[BAD] = damage.get("context", 0.5), damage.get("propensity", 0.5)
    return Rounds.of_bits(Contexts.dense(x), labels, p, np.ones(N, np.bool_), labels, evidence, np.full(N, 0.5))


@pytest.mark.parametrize("damage", [{"context": 1e308, "propensity": 1e-300}, {"context": np.inf}])
@pytest.mark.parametrize("cls", [Banditron, Gaptron])
def test_a_fold_ends_before_the_first_extreme_round(cls: type[Any], damage: dict[str, float]) -> None:
    learner = cls(problem=PROBLEM)
    rounds = rounds_with(learner)
    damaged = rounds._replace(
        **{name: getattr(rounds_with(learner, **damage), name) for name in ("contexts", "propensities")}
    )
    state, n = learn(Alone(learner), learner.init(), damaged)
    assert n == BAD
    assert bits(state) == bits(learner.fold(learner.init(), rounds.rows(0, BAD)))
    folded, n = learn(Alone(learner), copied(learner.init()), rounds)
    assert (n, all(np.isfinite(array).all() for array in folded)) == (N, True)
