"""Hyperparameters of every learner, with the theorem that covers them."""

from typing import Any, NamedTuple

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.first_order.bandit_perceptrons import BanditPerceptrons
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.first_order.perceptron import Perceptron
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
from learners.base import Problem
from learners.mathematics.gaptron_schedules import safe_step
from tests.learners.formulas import LOSSES

PROBLEM = Problem(3, 4, 2.0)


class Row(NamedTuple):
    """Hyperparameters, and the theorem that the guarantee cites for them; None where nothing is proved."""

    learner: type[Any]
    hyperparameters: dict[str, Any]
    theorem: str | None  # two are joined by " and "


BALL = {"radius": 1.5}
STEP = {"learning_rate": "theorem"}
SAFE = {loss: safe_step(loss, PROBLEM) for loss in LOSSES}
GAPTRON = [
    *(Row(Gaptron, {"loss": loss}, None) for loss in LOSSES),
    *(Row(Gaptron, {"loss": loss, "information": "full"}, None) for loss in LOSSES),
    *(Row(Gaptron, {"loss": loss, "information": "full", "radius": 2.0}, None) for loss in LOSSES),
]
for number, loss in enumerate(LOSSES, start=1):
    full = {"loss": loss, "information": "full"}
    bandit = {"loss": loss, **BALL, **STEP}
    FULL_THEOREM, BANDIT_THEOREM = f"Theorem {number}", f"Theorem {number + 3}"
    GAPTRON += [
        Row(Gaptron, full | STEP, FULL_THEOREM),
        Row(Gaptron, full | STEP | BALL, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"delayed_update": "recompute"}, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"eta_scale": 0.1}, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"eta_scale": 1.01}, None),
        Row(Gaptron, full | {"learning_rate": SAFE[loss]}, FULL_THEOREM),
        Row(Gaptron, full | {"learning_rate": 0.5 * SAFE[loss]}, FULL_THEOREM),
        Row(Gaptron, full | {"learning_rate": 1.01 * SAFE[loss]}, None),
        Row(Gaptron, bandit, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem"}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "least_exploration": 0.1}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "horizon": 1000}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "horizon": 1000, "eta_scale": 2.0}, None),
        Row(Gaptron, bandit | {"exploration": 0.3}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": 0.3, "eta_scale": 30.0}, None),
        Row(Gaptron, bandit | {"eta_scale": 1.01}, None),
        Row(Gaptron, {"loss": loss, "exploration": "theorem", **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss], **BALL}, BANDIT_THEOREM),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.11 * SAFE[loss], **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss]}, None),
    ]
STRUCTURED = [
    row
    for cls, more in (
        (FenchelYoungOrdinal, {}),
        (FenchelYoungMultilabel, {}),
        (FenchelYoungRanking, {}),
        (FenchelYoungRanking, {"polytope": "birkhoff"}),
    )
    for row in (
        Row(cls, more, "Theorem 4.2"),
        Row(cls, more | {"radius": 1.0}, "Theorem 4.2"),
        Row(cls, more | {"learning_rate": "high-probability"}, "Theorem 4.3"),
        Row(cls, more | {"learning_rate": "adaptive", "radius": 1.0}, "Appendix E.1"),
        Row(cls, more | {"learning_rate": "parameter-free"}, "Appendix E.2"),
        Row(cls, more | {"learning_rate": 1e-3}, "Theorem 4.2"),
        Row(cls, more | {"learning_rate": 100.0}, None),
    )
]
TABLE = [
    *GAPTRON,
    *STRUCTURED,
    *(
        row
        for cls in (Soba, SobaLowRank)
        for row in (
            Row(cls, {}, None),
            Row(cls, {"exploration": 0.05}, "Theorem 2"),
            Row(cls, {"exploration": 0.05, "regularization": 7.0}, "Theorem 2"),
            Row(cls, {"exploration": "adaptive"}, None),  # a = 1, X² = 4
            Row(cls, {"exploration": "adaptive", "regularization": 4.0}, "Theorem 5"),
        )
    ),
    Row(SobaDiagonal, {}, None),
    Row(SobaDiagonal, {"exploration": 0.1, "regularization": 4.0}, None),
    Row(SobaNewton, {}, "Algorithm 2"),
    Row(SobaNewton, {"eta": 1e-3}, "Algorithm 2"),
    Row(SobaNewton, {"beta": 0.1}, None),
    Row(SobaNewton, {"epsilon": 0.1}, None),
    Row(Newtron, {}, None),
    Row(Newtron, {"exploration": 0.1, "radius": 1.0}, None),
    Row(PNewtron, {}, None),
    Row(PNewtron, {"projection": "none"}, None),
    Row(Perceptron, {}, "Theorem 1"),
    Row(FenchelYoung, {}, "Theorem 5.1"),
    Row(FenchelYoung, {"radius": 1.0}, "Theorem 5.1"),
    Row(FenchelYoung, {"delayed_update": "recompute"}, "Theorem 5.1"),
    Row(FenchelYoung, {"learning_rate": 0.05}, "Theorem 5.1"),  # at most (1 - ln 2) ln 2 / 4 = 0.0532
    Row(FenchelYoung, {"learning_rate": 0.06}, None),
    Row(FenchelYoung, {"learning_rate": "adaptive", "radius": 1.0}, "Appendix E.1"),
    Row(FenchelYoung, {"learning_rate": "parameter-free"}, "Appendix E.2"),
    Row(Folklore, {}, "Theorem 3.3"),
    Row(Folklore, {"comparator_bound": 0.5}, "Theorem 3.3"),
    Row(FolkloreBandit, {}, "Theorem 4.1"),
    Row(FolkloreBandit, {"exploration": "anytime"}, None),
    Row(BanditReduction, {}, "Theorem 4.1 and Theorem 5.1"),
    Row(BanditReduction, {"learning_rate": 0.05}, "Theorem 4.1 and Theorem 5.1"),  # at most 0.0532, as above
    Row(BanditReduction, {"learning_rate": 0.06}, None),
    Row(BanditReduction, {"exploration": "anytime"}, None),
    Row(BanditReduction, {"base": "folklore"}, "Theorem 4.1"),
    Row(BanditReduction, {"base": "gaptron"}, "Theorem 4.1 and Theorem 1"),
    Row(BanditReduction, {"base": "gaptron", "learning_rate": 1.01 * SAFE["logistic"]}, None),
    Row(AdaBoostOlm, {}, "Appendix C"),
    Row(AdaBoostOlm, {"weak_learner": "cost-regression"}, "Appendix C"),
    Row(AdaHedge, {}, "Theorem 7"),
    Row(BanditPerceptrons, {}, "Algorithm 1"),
    Row(BanditPerceptrons, {"use_known_label": False}, "Algorithm 1"),
    Row(FastCb, {}, None),
    Row(FastCb, {"restart_risk": 1e-9}, None),
    Row(SquareCb, {}, "Lemma 3"),
    Row(SquareCb, {"least_exploration": 0.1}, "Lemma 3"),
    Row(EpsilonGreedyRidge, {}, None),
    Row(EpsilonGreedyRidge, {"exploration": "theorem"}, None),
]
