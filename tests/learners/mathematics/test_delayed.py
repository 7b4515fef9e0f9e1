"""Delayed feedback, with evidence as of prediction or recomputed: both modes equal the algorithm without delay."""

from typing import Any

import numpy as np
import pytest

from learners.base import AnyLearner, Problem, Rounds
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.implementations import Case
from tests.learners.worlds import Step, World, join, pick, play, world_for

PROBLEM = Problem(4, 5)
N = 120

OPTIONAL = {
    "gaptron", "fenchel-young", "fenchel-young-ordinal", "fenchel-young-multilabel", "fenchel-young-ranking",
    "banditron", "newtron", "pnewtron", "folklore", "folklore-bandit", "adaboost-olm",
}  # fmt: skip
"""Learners with a `delayed_update` hyperparameter."""

REDUCTIONS = {"folklore-bandit", "bandit-reduction"}
"""Learners that toss a coin with the γ of the prediction, and do not weight by the propensity."""

CASES = [
    *(Case(ALL_LEARNERS[name], {}, n_labels=4) for name in sorted(OPTIONAL)),
    Case(ALL_LEARNERS["gaptron"], {"exploration": 0.3, "learning_rate": "theorem", "radius": 1.0, "eta_scale": 9.0}),
    Case(ALL_LEARNERS["gaptron"], {"information": "full", "loss": "logistic", "learning_rate": 0.5}),
    Case(ALL_LEARNERS["pnewtron"], {"exploration": 0.2, "radius": 0.1}),
    Case(ALL_LEARNERS["newtron"], {"exploration": 0.2, "radius": 0.5}),
    Case(ALL_LEARNERS["fenchel-young"], {"learning_rate": "parameter-free"}),
    Case(ALL_LEARNERS["fenchel-young"], {"learning_rate": 2.0, "radius": 0.5}),
    Case(ALL_LEARNERS["fenchel-young-multilabel"], {"learning_rate": "adaptive", "radius": 1.0}),
    Case(ALL_LEARNERS["fenchel-young-ranking"], {"polytope": "birkhoff"}),
    Case(ALL_LEARNERS["folklore-bandit"], {"exploration": 0.9, "comparator_bound": 2.0}),
    Case(
        ALL_LEARNERS["bandit-reduction"],
        {"exploration": 0.9, "base": "gaptron", "base_settings": {"learning_rate": 1.0}},
    ),
]


@pytest.fixture(params=CASES, ids=str)
def modes(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    case: Case = request.param
    given = case.hyperparameters

    def learner(mode: str) -> AnyLearner:
        late: dict[str, Any] = {"delayed_update": mode}
        if "base_settings" in given:
            late = {"base_settings": given["base_settings"] | late}
        return case._replace(hyperparameters=given | late).at(PROBLEM)

    return learner("as_of_prediction"), learner("recompute")


def test_learners_with_delayed_update_are_listed() -> None:
    offering = {name: cls for name, cls in ALL_LEARNERS.items() if "delayed_update" in cls.__dataclass_fields__}
    assert set(offering) == OPTIONAL
    assert {cls.__dataclass_fields__["delayed_update"].default for cls in offering.values()} == {"as_of_prediction"}


def test_modes_agree_without_delay(modes: tuple[AnyLearner, AnyLearner]) -> None:
    world = world_for(modes[0], 5, N)
    lives = [list(play(learner, world)) for learner in modes]
    for one, two in zip(*lives, strict=True):
        assert bits((one.distribution, one.round.labels, one.round.propensities)) == bits(
            (two.distribution, two.round.labels, two.round.propensities)
        )
        assert bits(one.after) == bits(two.after)
    assert modes[1].evidence_size <= modes[0].evidence_size


def arrivals(learner: AnyLearner, world: World, delay: int) -> tuple[Any, Rounds]:
    state = learner.init()
    waiting: list[Step] = []
    log: list[Step] = []
    order = np.random.default_rng(9)
    for t in range(len(world.truth)):
        now = World(world.contexts[t : t + 1], world.truth[t : t + 1], world.uniforms[t : t + 1])
        (step,) = play(learner, now, copied(state))
        waiting.append(step)
        if len(waiting) > delay:
            log.append(waiting.pop(int(order.integers(len(waiting)))))
            state = learner.fold(state, log[-1].round)
    return state, join(log)


def test_recompute_equals_the_undelayed_learner_in_order_of_arrival(modes: tuple[AnyLearner, AnyLearner]) -> None:
    undelayed, recompute = modes
    state, log = arrivals(recompute, world_for(undelayed, 5, N), delay=20)
    plain = undelayed.init()
    for t in range(log.n):
        one = pick(log, [t])
        evidence = undelayed.decide(plain, one.contexts).evidence
        if undelayed.algorithm in REDUCTIONS:
            evidence[:, -1] = one.evidence[:, -1]  # the coin is that of the prediction
        plain = undelayed.fold(plain, one._replace(evidence=evidence))
    assert bits(state) == bits(plain)
    assert is_finite(state)
