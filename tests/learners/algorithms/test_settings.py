"""Hyperparameters that contradict each other or lose precision are refused; exploration falls as it says."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.base import Contexts, Problem
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import assert_close

SMALL, UNIT = Problem(3, 4), "unit ball"
REFUSED: list[tuple[str, Problem, dict[str, Any], str]] = [
    ("gaptron", SMALL, {"horizon": 10**400}, "horizon"),
    ("gaptron", SMALL, {"exploration": "theorem", "learning_rate": "adaptive"}, "(?m)^radius\n"),
    ("gaptron", SMALL, {"learning_rate": "theorem"}, "(?m)^radius\n"),
    ("gaptron", SMALL, {"exploration": 0.1, "horizon": 10}, "(?m)^horizon\n"),
    ("gaptron", SMALL, {"horizon": 10}, "(?m)^horizon\n"),
    ("gaptron", SMALL, {"learning_rate": 0.1}, "(?m)^learning_rate\n"),
    ("epsilon-greedy-ridge", Problem(3, 4, 1e4), {"regularization": 0.09}, "(?m)^regularization\n.*at least 0.1001,"),
    ("soba", Problem(4, 5, 1e4), {"regularization": 0.099}, "(?m)^regularization\n"),
    ("soba-newton", Problem(3, 4, 2.0), {"radius": 2.5, "eta": 0.11}, "(?m)^eta\n.*must be at most"),
    ("newtron", Problem(3, 4, 1e6), {"radius": 1.0}, "(?m)^radius\n.*at most 1e9"),
    ("folklore", Problem(2, 2, 1e6), {"comparator_bound": 1e6}, "(?m)^comparator_bound\n.*1e9"),
    ("folklore", Problem(2, 2, 2e4), {"comparator_bound": 1e5}, "(?m)^comparator_bound\n.*1e9"),
    ("folklore-bandit", Problem(2, 2, 1e6), {"comparator_bound": 1e6}, "(?m)^comparator_bound\n.*1e9"),
    *(
        ("bandit-reduction", problem, {"base": base, **({"base_settings": given} if given else {})}, match)
        for problem, base, given, match in (
            (SMALL, "folklore", {"learning_rate": 1.0}, "base_settings\n.*folklore: learning_rate"),
            (SMALL, "folklore", {"comparator_bound": 1.0}, "comparator_bound"),
            (SMALL, "gaptron", {"information": "full"}, "information"),
            (SMALL, "gaptron", {"learning_rate": -1.0}, "gaptron: learning_rate"),
            (SMALL, "fenchel-young", {"learning_rate": "adaptive"}, "radius"),
            (SMALL, "adaboost-olm", {"weak_learners": 0}, "adaboost-olm: weak_learners"),
            (Problem(4, 5), "adahedge", {}, "base\n.*exactly 3 labels"),
        )
    ),
    *(
        (name, SMALL, settings, "horizon")
        for name in ("soba", "soba-low-rank", "bandit-reduction", "folklore-bandit")
        for settings in ({"exploration": "theorem"}, {"horizon": 10}, {"horizon": 10, "exploration": 0.1})
    ),
    *(
        (
            "bandit-reduction",
            SMALL,
            {"base": base, "base_settings": settings, "exploration": "anytime"},
            "exploration\n",
        )
        for base, settings in (
            ("adaboost-olm", {"weak_learners": 2}),
            ("perceptron", None),
            ("fenchel-young", {"learning_rate": 3.0}),
        )
    ),
    ("gaptron", SMALL, {"loss": "hinge", "exploration": 0.0, "radius": 1.0}, "exploration\n.*logistic"),
    ("gaptron", SMALL, {"loss": "logistic", "exploration": 0.0}, "exploration\n.*radius"),
    ("gaptron", SMALL, {"loss": "logistic", "exploration": 0.0, "radius": 20.0}, "smaller radius"),
    ("gaptron", SMALL, {"exploration": 1e-9}, "at least 1e-06"),
    *(("adahedge", Problem(K, 5), {}, "exactly 3 labels") for K in (2, 4)),
    *(
        (f"fenchel-young{kind}", SMALL, settings, "radius")
        for kind in ("", "-multilabel", "-ranking", "-ordinal")
        for settings in ({"learning_rate": "adaptive"}, {"learning_rate": "parameter-free", "radius": 1.0})
    ),
    *(
        (f"bandit-perceptrons-{kind}", Problem(4, 5, X), {}, UNIT)
        for kind in ("kernel", "features")
        for X in (0.5, 1.1)
    ),
    ("bandit-perceptrons-features", Problem(3, 1_000_000), {}, "use fewer features"),
]


@pytest.mark.parametrize(("algorithm", "problem", "settings", "match"), REFUSED, ids=str)
def test_contradictions_and_losses_of_precision_are_refused(
    algorithm: str, problem: Problem, settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=match):
        ALL_LEARNERS[algorithm](problem=problem, **settings)


SCHEDULES: list[tuple[str, dict[str, Any], float, float]] = [
    ("banditron", {"exploration": "theorem", "theorem_constant": 8.0}, 8.0, 1 / 3),
    ("banditron", {"exploration": "anytime"}, 3.0, 1 / 2),
    ("epsilon-greedy-ridge", {"exploration": "theorem"}, 3.0, 1 / 3),
    ("epsilon-greedy-ridge", {"exploration": "anytime"}, 3.0, 1 / 2),
]


@pytest.mark.parametrize(("algorithm", "settings", "c", "power"), SCHEDULES, ids=str)
@pytest.mark.parametrize("floor", [1e-3, 0.25])
def test_falling_exploration(algorithm: str, settings: dict[str, Any], c: float, power: float, floor: float) -> None:
    """γ_t = min(1, (c/t)^power), but at least its floor."""
    learner = ALL_LEARNERS[algorithm](problem=SMALL, least_exploration=floor, **settings)
    for t in (1, 3, 4, 8, 9, 64, 512, 10**6):
        state = learner.init()._replace(rounds=np.array(t - 1))
        rate = 3.0 * learner.decide(state, Contexts.dense([0.5, 0.1, 0.0, 0.0])).distributions.min()
        assert_close(rate, min(1.0, max(floor, (c / t) ** power)), 1e-12)


@pytest.mark.parametrize("algorithm", ["newtron", "pnewtron"])
def test_falling_exploration_of_newtron(algorithm: str) -> None:
    """γ_t = min(1, √(K/t)), mixed with the softmax of α W x."""
    learner = ALL_LEARNERS[algorithm](problem=SMALL)
    state = learner.init()
    state.weights[0] = 0.0, 0.1, 0.3
    for t in (1, 3, 4, 100, 10_000):
        state.rounds[()] = t - 1
        distributions, (scores,) = learner.decide(state, Contexts.dense([1.0, 0.0, 0.0, 0.0]))
        p, rate = np.exp(10.0 * scores), min(1.0, (3 / t) ** 0.5)
        assert_close(distributions[0], (1.0 - rate) * p / p.sum() + rate / 3.0, 1e-12)
