"""Every learner, by the name users write. A new learner is its own file and one line here."""

from typing import Any

import numpy as np

from learners.base import NO_LABEL, AnyLearner, Contexts, Problem, Rounds
from learners.exploration import draw
from learners.gaptron import Gaptron
from learners.soba import Soba
from learners.soba_diagonal import SobaDiagonal
from learners.uniform import Uniform

LEARNERS: dict[str, type[Any]] = {cls.algorithm: cls for cls in (Gaptron, Soba, SobaDiagonal, Uniform)}

RECOMMENDED: type[Any] = SobaDiagonal
"""The learner of a model that names none."""


def warm_up() -> None:
    """Compiles every kernel that a learner uses, or loads it from the cache: seconds, or less than one."""
    for cls in LEARNERS.values():
        _play_once(cls(problem=Problem(n_labels=2, n_features=1)))


def _play_once(learner: AnyLearner) -> None:
    state, contexts = learner.init(), Contexts.dense([[1.0]])
    distributions, evidence = learner.decide(state, contexts)
    labels, propensities = draw(distributions, np.zeros(1))
    learner.fold(state, Rounds(contexts, labels, propensities, np.array([True]), np.array([NO_LABEL]), evidence))
