"""Compiles the service's kernels, or loads them from the cache. Compiling them later would delay requests."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, AnyActionLearner, Candidates
from learners.actions.vectors import FeatureSets, Indexing, joined_vectors
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS
from learners.answers import draw_answers, uniforms_per_answer
from learners.base import NO_PRICES, AnyLearner, Contexts, Problem, Rounds, every_label
from learners.choosing import NOBODY, choose_unchecked
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.policies import Served
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated, sums_of
from learners.evaluation.progressive import progress_unchecked
from learners.mathematics.exploration import draw_among
from learners.mathematics.limits import NO_LIMITS, obey_each
from learners.mathematics.pacing import Budget, new_pacing, pace_all, paced_weight
from learners.mathematics.preparation import Preparation, Preparer, prepare
from learners.registry import ACTION_LEARNERS, ALL_LEARNERS, LEARNERS, RECOMMENDED

_PROBLEM = Problem(n_labels=3, n_features=1)
_SETS = ("100", "010", "111")
_ONE_OF_EACH = (Contexts.dense([[1.0]]), Contexts.sparse([1], [0], [1.0]))  # one dense and one sparse context


@cache
def load(learner: Any) -> None:
    """Load the kernels of a learner class, once per process: takes about a second if the cache has them."""
    for call in _of(learner):
        call()


def compile_all(begin: float = 0.0) -> None:
    """Compile every kernel, or load it from the cache.

    Starts at the fraction `begin` in [0, 1) of all kernels, and ends with those before it. Processes that begin at
    different fractions divide the work, because each loads the kernels that another has already compiled.
    """
    learners: list[Any] = [RECOMMENDED, *ALL_LEARNERS.values(), *ACTION_LEARNERS.values()]  # the default first
    calls = [*chain.from_iterable(map(_of, dict.fromkeys(learners))), *_variants(), *_sometimes()]
    first = int(begin * len(calls))
    for call in calls[first:] + calls[:first]:
        call()


def _of(learner: Any) -> Iterator[Callable[[], object]]:
    """Yield calls that together use every kernel that a learner's predictions and feedback need."""
    is_of_actions = learner in ACTION_LEARNERS.values()
    for contexts in _ONE_OF_EACH:
        if is_of_actions:
            yield partial(_choose_once, learner(problem=ActionProblem(n_features=1)), contexts)
        else:
            yield partial(_play_once, learner(problem=_PROBLEM), contexts)
        yield partial(prepare, contexts, Preparation("scale", 1.0, True, 1))
    if learner.weighs_costs:
        yield _pace_once
    if is_of_actions:
        features = FeatureSets(np.array([0, 1]), np.ones(1, np.uint64), np.ones(1), np.zeros(1, np.int64))
        yield partial(joined_vectors, features, features, np.array([0, 1]), Indexing(np.ones((1, 1), np.bool_), 1, 0))


def _variants() -> Iterator[Callable[[], object]]:
    """Yield calls that use the kernels of learners with other hyperparameters, and those of evaluations."""
    learners: list[Any] = [AdaBoostOlm(problem=_PROBLEM, weak_learner=name) for name in WEAK_LEARNERS]
    learners.append(FenchelYoungRanking(problem=_PROBLEM, polytope="birkhoff"))
    learners += [FenchelYoungMultilabel(problem=_PROBLEM, sets=_SETS, loss=loss) for loss in ("sparsemap", "crf")]
    for learner in learners:
        for contexts in _ONE_OF_EACH:
            yield partial(_play_once, learner, contexts)
    yield partial(sums_of, _logged(), [Evaluated(Served())], Settings(replicates=1))


def _sometimes() -> Iterator[Callable[[], object]]:
    """Yield calls that use the loops of shadows, which `load` leaves out: they take 60 MB when loaded."""
    for cls in LEARNERS.values():
        yield partial(_progress_once, cls(problem=_PROBLEM))


def _play_once(learner: AnyLearner, contexts: Contexts) -> None:
    state = learner.init()
    decisions = learner.decide(state, contexts)
    labels, propensities, residual_uniforms = draw_answers(
        learner, decisions, np.zeros((1, uniforms_per_answer(learner)))
    )
    one = (
        Preparer(Preparation("scale", 1.0, False, 1)),
        every_label(1),
        NO_PRICES,
        NO_LIMITS,
        NOBODY,
        np.zeros((1, uniforms_per_answer(learner))),
    )
    choose_unchecked(learner, state, contexts, *one)
    outcome = np.array([True]), labels
    rounds = Rounds.of_bits(contexts, labels, propensities, *outcome, decisions.evidence, residual_uniforms)
    learner.contributions(learner.fold(state, rounds), contexts)


def _choose_once(learner: AnyActionLearner, contexts: Contexts) -> None:
    state = learner.init()
    starts = np.array([0, 1])
    probabilities = learner.decide(state, Candidates(contexts, starts, np.empty(0, np.bool_)))
    obey_each(NO_LIMITS, starts, np.empty(0, np.bool_), probabilities)
    draw_among(probabilities, starts, np.zeros(1))
    state = learner.fold(state, ActionRounds(contexts, np.ones(1), np.ones(1), np.ones(1, np.int64)))
    learner.contributions(state, contexts)


def _pace_once() -> None:
    pacing, budget = new_pacing(), Budget(1.0)
    pace_all(pacing, budget, np.ones(1), np.ones(1), np.zeros(1))
    paced_weight(pacing, budget)


def _progress_once(learner: AnyLearner) -> None:
    number, bit, third = np.zeros(1, np.int64), np.ones(1, np.bool_), np.full(1, 1 / 3)
    evidence = np.empty((1, 0))
    rounds = Rounds(_ONE_OF_EACH[0], number, third, bit, number, evidence, np.zeros(1), np.ones(1), every_label(1))
    progress_unchecked(learner, learner.init(), rounds)


def _logged() -> LoggedRounds:
    one, number, no = np.ones(1), np.ones(1, np.int64), np.zeros(1, np.bool_)
    label = np.zeros(1, np.int64)
    return LoggedRounds(number, label, one, one, every_label(1), number, no, label, _ONE_OF_EACH[0])
