"""Every learner, by the name users write. A new learner is its own file and one line here."""

from typing import Any

import numpy as np

from learners.adahedge import AdaHedge
from learners.answers import draw_answers, uniforms_per_answer
from learners.bandit_perceptrons import BanditPerceptrons, BanditPerceptronsKernel
from learners.bandit_reduction import FolkloreBandit
from learners.banditron import Banditron
from learners.base import AnyLearner, Contexts, Problem, Rounds
from learners.boosting import AdaBoostOlm
from learners.fenchel_young import FenchelYoung
from learners.folklore import Folklore
from learners.gaptron import Gaptron
from learners.label_sets import FenchelYoungLabelSet
from learners.levels import FenchelYoungLevel
from learners.newtron import PNewtron
from learners.newtron_full import Newtron
from learners.perceptron import Perceptron
from learners.rankings import FenchelYoungRanking
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
        FenchelYoungLevel,
        Uniform,
    )
}
"""Those that answer one label."""

STRUCTURED_LEARNERS: dict[str, type[Any]] = {cls.algorithm: cls for cls in (FenchelYoungLabelSet, FenchelYoungRanking)}
"""Those whose answer is more than a label: see `base.StructuredLearner`."""

ALL_LEARNERS = LEARNERS | STRUCTURED_LEARNERS

RECOMMENDED: type[Any] = SquareCb
"""The learner of a model that names none."""


def warm_up() -> None:
    """Compiles every kernel that a learner uses, or loads it from the cache: seconds, or less than one.

    Both kinds of contexts are played: what is compiled later holds up the worker that meets it first.
    """
    problem = Problem(n_labels=3, n_features=1)
    learners = [cls(problem=problem) for cls in ALL_LEARNERS.values()]
    for learner in (*learners, FenchelYoungRanking(problem=problem, polytope="birkhoff")):
        for contexts in (Contexts.dense([[1.0]]), Contexts.sparse([1], [0], [1.0])):
            _play_once(learner, contexts)


def _play_once(learner: AnyLearner, contexts: Contexts) -> None:
    state = learner.init()
    decisions = learner.decide(state, contexts)
    labels, propensities, leftovers = draw_answers(learner, decisions, np.zeros((1, uniforms_per_answer(learner))))
    outcome = np.array([True]), labels
    learner.fold(state, Rounds(contexts, labels, propensities, *outcome, decisions.evidence, leftovers))
