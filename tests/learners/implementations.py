"""The implementations that every contract test runs on. To add a learner, add a line here."""

import dataclasses
from typing import Any, NamedTuple

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
from learners.algorithms.regression.squarecb import SquareCb
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.algorithms.second_order.soba_newton import SobaNewton
from learners.base import AnyLearner, Problem


class Case(NamedTuple):
    """A learner with its hyperparameters, for any problem."""

    learner: type[Any]
    hyperparameters: dict[str, Any]
    least_exploration: float = 0.0  # γ: every decision gives each label at least γ/K
    n_labels: int | None = None  # the number of labels, for learners whose labels have fixed roles

    def at(self, problem: Problem) -> AnyLearner:
        """Build the learner for a problem; a fixed number of labels replaces the problem's."""
        if self.n_labels is not None:
            problem = dataclasses.replace(problem, n_labels=self.n_labels)
        learner: AnyLearner = self.learner(problem=problem, **self.hyperparameters)
        return learner

    def __str__(self) -> str:
        return "-".join([self.learner.algorithm, *(str(value) for value in self.hyperparameters.values())])


THEOREM = {"learning_rate": "theorem", "radius": 2.0}

IMPLEMENTATIONS = [
    Case(FastCb, {}),
    Case(FastCb, {"gap_scale": 0.5, "least_exploration": 0.2, "learning_rate": 6.0}, 0.2),
    Case(FastCb, {"max_features": 3, "restart_risk": 0.1}),
    Case(SquareCb, {}),
    Case(SquareCb, {"gap_scale": 0.5, "least_exploration": 0.2, "learning_rate": 0.3}, 0.2),
    Case(Gaptron, {}),
    Case(Gaptron, {"loss": "hinge"}),
    Case(Gaptron, {"loss": "smooth_hinge", "least_exploration": 0.2, "delayed_update": "recompute"}, 0.2),
    Case(Gaptron, {"loss": "logistic", "exploration": 0.3, "learning_rate": 0.5, "delayed_update": "recompute"}, 0.3),
    Case(Gaptron, {"loss": "hinge", "exploration": 0.1, "eta_scale": 30.0, "radius": 0.5}, 0.1),
    Case(Gaptron, {"loss": "hinge", "exploration": 0.1, "eta_scale": 30.0, **THEOREM}, 0.1),
    Case(Gaptron, {"loss": "logistic", "exploration": "theorem", **THEOREM}),
    Case(Gaptron, {"loss": "smooth_hinge", "exploration": "theorem", "horizon": 100_000, **THEOREM}),
    Case(Gaptron, {"loss": "logistic", "information": "full"}),
    Case(Gaptron, {"loss": "hinge", "information": "full", "radius": None}),
    Case(Gaptron, {"loss": "smooth_hinge", "information": "full", "delayed_update": "recompute", "eta_scale": 10.0}),
    Case(Soba, {}),
    Case(Soba, {"exploration": 0.05}, 0.05),
    Case(Soba, {"exploration": "adaptive"}),
    Case(Soba, {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(SobaLowRank, {"max_updates": 200, "max_nonzeros": 1000}),
    Case(SobaLowRank, {"exploration": "adaptive", "max_updates": 50, "max_nonzeros": 1000}),
    Case(SobaLowRank, {"exploration": 0.05, "regularization": 0.5, "max_updates": 50, "max_nonzeros": 40}, 0.05),
    Case(SobaDiagonal, {}),
    Case(SobaDiagonal, {"exploration": "adaptive"}),
    Case(SobaDiagonal, {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(Banditron, {}),
    Case(Banditron, {"delayed_update": "recompute"}),
    Case(Banditron, {"exploration": "theorem", "least_exploration": 0.1}, 0.1),
    Case(Perceptron, {}),
    Case(PNewtron, {}),
    Case(PNewtron, {"delayed_update": "recompute", "radius": 0.5}),
    Case(PNewtron, {"exploration": 0.2, "projection": "none"}, 0.2),
    Case(Newtron, {}),
    Case(Newtron, {"delayed_update": "recompute"}),
    Case(Newtron, {"exploration": 0.2, "alpha": 3.0, "beta": 0.5, "radius": 2.0}, 0.2),
    Case(SobaNewton, {"exploration": 0.3}, 0.3),
    Case(SobaNewton, {"exploration": 0.3, "beta": 0.05, "epsilon": 1.0, "eta": 1e-6}, 0.3),
    Case(BanditPerceptrons, {}),
    Case(BanditPerceptrons, {"use_known_label": False}),
    Case(BanditPerceptronsKernel, {}),
    Case(BanditPerceptronsKernel, {"max_support": 20, "use_known_label": False}),
    Case(BanditPerceptronsFeatures, {"degree": 3}),
    Case(BanditPerceptronsFeatures, {"degree": 2, "use_known_label": False}),
    Case(EpsilonGreedyRidge, {}),
    Case(EpsilonGreedyRidge, {"exploration": "theorem", "least_exploration": 0.1}, 0.1),
    Case(AdaHedge, {}, n_labels=3),
    Case(FenchelYoung, {}),
    Case(FenchelYoung, {"delayed_update": "recompute"}),
    Case(FenchelYoung, {"delayed_update": "recompute", "learning_rate": "parameter-free"}),
    Case(FenchelYoung, {"learning_rate": "adaptive", "radius": 3.0}),
    Case(FenchelYoung, {"learning_rate": "parameter-free"}),
    Case(FenchelYoung, {"learning_rate": 0.5, "radius": 1.0}),
    Case(Folklore, {}),
    Case(Folklore, {"delayed_update": "recompute"}),
    Case(Folklore, {"comparator_bound": 0.5}),
    Case(FolkloreBandit, {}, 0.1),
    Case(FolkloreBandit, {"delayed_update": "recompute"}, 0.1),
    Case(FolkloreBandit, {"exploration": "anytime", "comparator_bound": 1e-3}),
    Case(BanditReduction, {}, 0.1),
    Case(BanditReduction, {"base": "fenchel-young", "learning_rate": 3.0, "delayed_update": "recompute"}, 0.1),
    Case(BanditReduction, {"base": "gaptron", "exploration": "anytime", "comparator_bound": 1e-3}),
    Case(BanditReduction, {"base": "folklore", "exploration": 0.2}, 0.2),
    Case(AdaBoostOlm, {}),
    Case(AdaBoostOlm, {"delayed_update": "recompute"}),
    Case(AdaBoostOlm, {"weak_learners": 2, "horizon": 1000}),
    Case(AdaBoostOlm, {"weak_learners": 2, "weak_learner": "few-features", "features_per_learner": 1}),
    Case(AdaBoostOlm, {"weak_learners": 3, "weak_learner": "cost-regression", "features_seed": 2**53}),
    Case(AdaBoostOlm, {"weak_learners": 2, "weak_learner": "folklore", "features_per_learner": 1}),
    Case(Uniform, {}, 1.0),
    Case(FenchelYoungOrdinal, {}, n_labels=4),
    Case(FenchelYoungOrdinal, {"delayed_update": "recompute"}, n_labels=4),
    Case(FenchelYoungOrdinal, {"learning_rate": "parameter-free", "regularization": 3.0}, n_labels=4),
    Case(FenchelYoungMultilabel, {}),
    Case(FenchelYoungMultilabel, {"delayed_update": "recompute"}),
    Case(FenchelYoungMultilabel, {"learning_rate": "high-probability", "regularization": 3.0}),
    Case(FenchelYoungMultilabel, {"learning_rate": "parameter-free"}),
    Case(FenchelYoungRanking, {}),
    Case(FenchelYoungRanking, {"delayed_update": "recompute"}),
    Case(FenchelYoungRanking, {"learning_rate": "adaptive", "radius": 3.0}),
    Case(FenchelYoungRanking, {"polytope": "birkhoff"}),
    Case(FenchelYoungRanking, {"polytope": "birkhoff", "sharpness": 1.5, "learning_rate": 0.5, "radius": 1.0}),
]
