"""All learners by name. A new learner is one file, and one line here."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, AnyActionLearner, Candidates
from learners.actions.vectors import FeatureSets, joined_vectors
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
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS
from learners.algorithms.per_action.epsilon_greedy_ridge import EpsilonGreedyRidgeActions
from learners.algorithms.per_action.fastcb import FastCbActions
from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.regression.squarecb import SquareCb
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.algorithms.second_order.soba_newton import SobaNewton
from learners.answers import draw_answers, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Problem, Rounds
from learners.mathematics.preparation import Preparation, prepare

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
"""Learners that answer several labels: see `base.StructuredLearner`."""

ALL_LEARNERS = LEARNERS | STRUCTURED_LEARNERS

ACTION_LEARNERS: dict[str, type[Any]] = {cls.algorithm: cls for cls in (FastCbActions, EpsilonGreedyRidgeActions)}
"""Learners of actions: see `actions.base.ActionLearner`. Their names may be those of learners of labels."""

ALIASES = {
    "fenchel-young-label-set": FenchelYoungMultilabel.algorithm,
    "fenchel-young-level": FenchelYoungOrdinal.algorithm,
}
"""Names of algorithms in version 0.1.0, with their current names. Accepted wherever a name is read."""

RECOMMENDED: type[Any] = FastCb
"""The default learner of new models."""


def current_name(algorithm: str) -> str:
    """Return the current name of an algorithm; unknown names unchanged."""
    return ALIASES.get(algorithm, algorithm)


def aliases_of(algorithm: str) -> list[str]:
    """Return the other accepted names of an algorithm, sorted."""
    return sorted(alias for alias, name in ALIASES.items() if name == algorithm)


_ONE_OF_EACH = (Contexts.dense([[1.0]]), Contexts.sparse([1], [0], [1.0]))
"""One dense and one sparse context."""


def warm_up(begin: float = 0.0) -> None:
    """Compile the kernels of all learners, which takes over a minute, or load them from the cache, in about a second.

    Run every learner on dense and sparse contexts: a kernel compiled later would block the first worker that needs it.

    Args:
        begin: where in the list of learners to begin, in [0, 1). Processes that begin at different places share the
            work, because each loads what another has compiled.
    """
    runs = list(_runs())
    first = int(begin * len(runs))
    for run in runs[first:] + runs[:first]:
        run()


def _runs() -> Iterator[Callable[[], object]]:
    """Yield calls that together need every kernel."""
    problem = Problem(n_labels=3, n_features=1)
    learners = [cls(problem=problem) for cls in ALL_LEARNERS.values()]
    learners += [AdaBoostOlm(problem=problem, weak_learner=name) for name in WEAK_LEARNERS]
    for learner in (*learners, FenchelYoungRanking(problem=problem, polytope="birkhoff")):
        for contexts in _ONE_OF_EACH:
            yield partial(_play_once, learner, contexts)
    for cls in ACTION_LEARNERS.values():
        for contexts in _ONE_OF_EACH:
            yield partial(_choose_once, cls(problem=ActionProblem(n_features=1)), contexts)
    for contexts in _ONE_OF_EACH:
        yield partial(prepare, contexts, Preparation("scale", 1.0, True, 1))
    features = FeatureSets(np.array([0, 1]), np.ones(1, np.uint64), np.ones(1), np.zeros(1, np.int64))
    yield partial(joined_vectors, features, features, np.array([0, 1]), np.ones((1, 1), np.bool_), 1, 0)


def _play_once(learner: AnyLearner, contexts: Contexts) -> None:
    state = learner.init()
    decisions = learner.decide(state, contexts)
    labels, propensities, residual_uniforms = draw_answers(
        learner, decisions, np.zeros((1, uniforms_per_answer(learner)))
    )
    outcome = np.array([True]), labels
    learner.fold(state, Rounds.of_bits(contexts, labels, propensities, *outcome, decisions.evidence, residual_uniforms))


def _choose_once(learner: AnyActionLearner, contexts: Contexts) -> None:
    state = learner.init()
    learner.decide(state, Candidates(contexts, np.array([0, 1]), np.empty(0, np.bool_)))
    learner.fold(state, ActionRounds(contexts, np.ones(1), np.ones(1), np.ones(1, np.int64)))
