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
from learners.soba_low_rank import SobaLowRank
from learners.soba_newton import SobaNewton
from learners.squarecb import SquareCb
from learners.uniform import Uniform

LEARNERS: dict[str, type[Any]] = {
    cls.algorithm: cls
    for cls in (
        SquareCb,
        Gaptron,
        Soba,
        SobaLowRank,
        SobaDiagonal,
        SobaNewton,
        Newtron,
        PNewtron,
        Banditron,
        Perceptron,
        FenchelYoung,
        BanditPerceptrons,
        BanditPerceptronsKernel,
        EpsilonGreedyRidge,
        AdaHedge,
        Folklore,
        FolkloreBandit,
        AdaBoostOlm,
        Uniform,
    )
}

RECOMMENDED: type[Any] = SquareCb
"""The learner of a model that names none."""


def warm_up() -> None:
    """Compiles every kernel that a learner uses, or loads it from the cache: seconds, or less than one.

    Both kinds of contexts are played: what is compiled later holds up the worker that meets it first.
    """
    for cls in LEARNERS.values():
        learner = cls(problem=Problem(n_labels=3, n_features=1))
        for contexts in (Contexts.dense([[1.0]]), Contexts.sparse([1], [0], [1.0])):
            _play_once(learner, contexts)


def _play_once(learner: AnyLearner, contexts: Contexts) -> None:
    state = learner.init()
    distributions, evidence = learner.decide(state, contexts)
    labels, propensities, leftovers = draw(distributions, np.zeros(1))
    outcome = np.array([True]), labels
    learner.fold(state, Rounds(contexts, labels, propensities, *outcome, evidence, leftovers))
