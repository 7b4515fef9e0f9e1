"""Every learner, by the name users write. A new learner is its own file and one line here."""

from typing import Any

import numpy as np

from learners.adahedge import AdaHedge
from learners.bandit_perceptrons import BanditPerceptrons, BanditPerceptronsKernel
from learners.bandit_reduction import FolkloreBandit
from learners.banditron import Banditron
from learners.base import AnyLearner, Contexts, Problem, Rounds
from learners.boosting import AdaBoostOlm
from learners.exploration import draw
from learners.fenchel_young import FenchelYoung
from learners.folklore import Folklore
from learners.gaptron import Gaptron
from learners.newtron import Newtron, PNewtron
from learners.perceptron import Perceptron
from learners.ridge import EpsilonGreedyRidge
from learners.soba import Soba
from learners.soba_diagonal import SobaDiagonal
from learners.soba_newton import SobaNewton
from learners.squarecb import SquareCb
from learners.uniform import Uniform

LEARNERS: dict[str, type[Any]] = {
    cls.algorithm: cls
    for cls in (
        *(
            SquareCb,
            Gaptron,
            Soba,
            SobaDiagonal,
            SobaNewton,
            Newtron,
            PNewtron,
            Banditron,
            Perceptron,
            FenchelYoung,
            Uniform,
        ),
        *(BanditPerceptrons, BanditPerceptronsKernel, EpsilonGreedyRidge, AdaHedge),
        *(Folklore, FolkloreBandit, AdaBoostOlm),
    )
}

RECOMMENDED: type[Any] = SquareCb
"""The learner of a model that names none."""


def warm_up() -> None:
    """Compiles every kernel that a learner uses, or loads it from the cache: seconds, or less than one."""
    for cls in LEARNERS.values():
        _play_once(cls(problem=Problem(n_labels=3, n_features=1)))


def _play_once(learner: AnyLearner) -> None:
    state, contexts = learner.init(), Contexts.dense([[1.0]])
    distributions, evidence = learner.decide(state, contexts)
    labels, propensities, leftovers = draw(distributions, np.zeros(1))
    outcome = np.array([True]), labels
    learner.fold(state, Rounds(contexts, labels, propensities, *outcome, evidence, leftovers))
