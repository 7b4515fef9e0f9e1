"""The learners of a comparison, and the settings that it tries."""

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from learners.estimators.bandit_classifier import BanditClassifier
from learners.estimators.setup import Choice, class_of, hyperparameters_of


class Candidate(NamedTuple):
    """A learner with settings, under a name."""

    name: str
    choice: Choice


DEFAULT_LEARNERS = ("fastcb", "squarecb", "epsilon-greedy-ridge", "gaptron", "soba-diagonal", "bandit-perceptrons")
"""The default learners of a comparison: the bandit learners with the lowest errors in RESULTS.md among those whose
cost is linear in the features, and ridge regression."""

_GRIDS: dict[str, tuple[dict[str, list[Any]], ...]] = {
    "fastcb": (
        {"gap_scale": [4.0, 8.0, 16.0], "learning_rate": [16.0, 32.0, 64.0]},
        {"half_life_rounds": [1000.0, 5000.0, 20000.0]},
    ),
    "squarecb": ({"gap_scale": [2.0, 8.0, 16.0], "learning_rate": [0.5, 1.5]},),
    "epsilon-greedy-ridge": ({"exploration": [0.005, 0.02, 0.1], "regularization": [0.1]},),
    "gaptron": ({"loss": ["logistic", "hinge"], "exploration": [0.02, 0.1], "eta_scale": [1.0, 3.0]},),
    "soba-diagonal": ({"exploration": [0.02, 0.1, "adaptive"], "regularization": [0.1, 1.0]},),
    "soba": ({"exploration": [0.02, 0.1, "adaptive"]},),
    "soba-low-rank": ({"exploration": [0.02, 0.1]},),
    "pnewtron": ({"exploration": [0.02, 0.1], "radius": [1.0, 10.0]},),
    "banditron": ({"exploration": [0.005, 0.02, 0.1]},),
    "bandit-perceptrons": ({"use_known_label": [True]},),
    "fenchel-young": ({"learning_rate": ["parameter-free", 1.0, 10.0]},),
    "folklore": ({"comparator_bound": [100.0]},),
}
"""Settings to try besides the defaults, each grid separately: values of benchmarks/papers/tuning.py that were best on
at least one stream, and half-lives for examples that are played in order."""


def candidates_of(learners: Iterable[Any]) -> list[Candidate]:
    """Return candidates for names, dictionaries or estimators. Raises `ValueError` for anything else, or duplicates."""
    if isinstance(learners, str | Mapping | BanditClassifier) or not isinstance(learners, Iterable):
        raise ValueError(f"learners: got {learners!r}; must be a list, such as ['fastcb', 'uniform']")
    found = [_candidate(one) for one in learners]
    if not found:
        raise ValueError("learners: at least one is needed")
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"learners: {twice[0]} occurs twice")
    return found


def _candidate(given: object) -> Candidate:
    if isinstance(given, Candidate):
        return given
    if isinstance(given, str):
        choice = Choice(given)
    elif isinstance(given, BanditClassifier):
        parameters = given.get_params()
        parameters.pop("random_state")
        choice = Choice(**parameters)
    elif isinstance(given, Mapping) and "algorithm" in given:
        settings = {str(name): value for name, value in given.items() if name != "algorithm"}
        choice = Choice(given["algorithm"], settings)
    else:
        raise ValueError(f"learners: got {given!r}; must be a name, a dictionary with 'algorithm', or an estimator")
    class_of(choice.algorithm)
    return Candidate(name_of(choice), choice)


def name_of(choice: Choice) -> str:
    """Return the algorithm with the settings that the choice states, such as `gaptron loss=hinge`."""
    given = hyperparameters_of(choice)
    defaults = {"norm": "default", "norm_bound": 1.0, "intercept": "default"}
    given |= {name: getattr(choice, name) for name, value in defaults.items() if getattr(choice, name) != value}
    return " ".join([choice.algorithm, *(f"{name}={_shown(value)}" for name, value in given.items())])


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):  # not a valid setting; `set_up` refuses it later
        return repr(value)


def settings_of(candidate: Candidate) -> list[Candidate]:
    """Return the candidate, and its variants with `_GRIDS` values for settings that it leaves at their defaults."""
    given = hyperparameters_of(candidate.choice)
    found = {candidate.name: candidate}
    for grid in _GRIDS.get(candidate.choice.algorithm, ()):
        free = {name: values for name, values in grid.items() if name not in given}
        for values in itertools.product(*free.values()):
            choice = candidate.choice._replace(hyperparameters=given | dict(zip(free, values, strict=True)))
            found.setdefault(name_of(choice), Candidate(name_of(choice), choice))
    return list(found.values())
