"""All learners by name. To add a learner, write its file, import it here, and add it to a table."""

from typing import Any

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.first_order.bandit_perceptrons import BanditPerceptrons
from learners.algorithms.first_order.bandit_perceptrons_features import BanditPerceptronsFeatures
from learners.algorithms.first_order.bandit_perceptrons_kernel import BanditPerceptronsKernel
from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.first_order.perceptron import Perceptron
from learners.algorithms.first_order.uniform import Uniform
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.adahedge import AdaHedge
from learners.algorithms.improper.bandit_reduction import BanditReduction
from learners.algorithms.improper.folklore import Folklore
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.regression.fastcb_actions import FastCbActions
from learners.algorithms.regression.squarecb import SquareCb
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge, EpsilonGreedyRidgeActions
from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.algorithms.second_order.soba_newton import SobaNewton

LEARNERS: dict[str, type[Any]] = {
    cls.algorithm: cls
    for cls in (
        FastCb,
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
        BanditPerceptronsFeatures,
        EpsilonGreedyRidge,
        AdaHedge,
        Folklore,
        FolkloreBandit,
        BanditReduction,
        AdaBoostOlm,
        FenchelYoungOrdinal,
        Uniform,
    )
}
"""Learners that answer one label."""

STRUCTURED_LEARNERS: dict[str, type[Any]] = {
    cls.algorithm: cls for cls in (FenchelYoungMultilabel, FenchelYoungRanking)
}
"""Learners that answer several labels: see `answers.StructuredLearner`."""

ALL_LEARNERS = LEARNERS | STRUCTURED_LEARNERS

ACTION_LEARNERS: dict[str, type[Any]] = {cls.algorithm: cls for cls in (FastCbActions, EpsilonGreedyRidgeActions)}
"""Action learners: see `actions.base.ActionLearner`. Their names may equal those of label learners."""

RECOMMENDED: type[Any] = FastCb  # the default learner of new models
