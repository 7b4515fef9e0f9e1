"""Compiles the service's kernels, or loads them from the cache. Compiling them later would delay requests."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, AnyActionLearner, Candidates
from learners.actions.vectors import FeatureSets, Indexing, joined_vectors
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS
from learners.answers import draw_answers_unchecked, is_structured, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Problem, Rounds, every_label
from learners.checks import check_contexts
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.policies import Served
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated, sums_of
from learners.evaluation.progressive import progress_unchecked
from learners.mathematics.exploration import draw_among
from learners.mathematics.limits import NO_LIMITS, obey_each
from learners.mathematics.pacing import Budget, new_pacing, pace_all, paced_weight
from learners.mathematics.preparation import Preparation, prepare
from learners.registry import ACTION_LEARNERS, ALL_LEARNERS, LEARNERS, RECOMMENDED

_PROBLEM = Problem(n_labels=3, n_features=1)
_SETS = ("100", "010", "111")
_CONTEXT = Contexts.dense([[1.0]])  # numba has one type for dense and sparse contexts

Call: TypeAlias = Callable[[], object]


@cache
def load(learner: Any) -> None:
    """Load the kernels of a learner class, once per process: takes about a second if the cache has them."""
    for call in _of(learner):
        call()


def part_of(learner: Any) -> str:
    """Return the part that has the kernels of a learner class."""
    return str(learner.__name__)


RULES, SHADOWS = "rules", "shadows"
"""The parts that models with rules, and shadows, need beside that of their learner."""


def parts() -> dict[str, Iterable[Call]]:
    """Return calls that together use every kernel of the service, by part; the recommended learner comes first."""
    learners: list[Any] = [*ALL_LEARNERS.values(), *ACTION_LEARNERS.values()]
    first: dict[str, Iterable[Call]] = {part_of(RECOMMENDED): _of(RECOMMENDED), RULES: [_obey_once]}
    others: dict[str, Iterable[Call]] = {part_of(each): _of(each) for each in learners}
    return first | others | {"variants": _variants(), SHADOWS: _loops_of_shadows()}


def _of(learner: Any) -> Iterator[Call]:
    """Yield calls that together use every kernel that a learner's predictions and feedback need."""
    is_of_actions = learner in ACTION_LEARNERS.values()
    if is_of_actions:
        yield from _of_actions(learner(problem=ActionProblem(n_features=1)))
    else:
        yield from _of_labels(learner(problem=_PROBLEM))
    yield partial(prepare, _CONTEXT, Preparation("scale", 1.0, True, 1))
    if learner.weighs_costs:
        yield _pace_once
    if is_of_actions:
        features = FeatureSets(np.array([0, 1]), np.ones(1, np.uint64), np.ones(1), np.zeros(1, np.int64))
        yield partial(joined_vectors, features, features, np.array([0, 1]), Indexing(np.ones((1, 1), np.bool_), 1, 0))


def _variants() -> Iterator[Call]:
    """Yield calls that use the kernels of learners with other hyperparameters, of checks, and of evaluations."""
    learners: list[Any] = [AdaBoostOlm(problem=_PROBLEM, weak_learner=name) for name in WEAK_LEARNERS]
    learners.append(FenchelYoungRanking(problem=_PROBLEM, polytope="birkhoff"))
    learners += [FenchelYoungMultilabel(problem=_PROBLEM, sets=_SETS, loss=loss) for loss in ("sparsemap", "crf")]
    for learner in learners:
        yield from _of_labels(learner)
    yield partial(check_contexts, _CONTEXT)
    yield partial(sums_of, _logged(), [Evaluated(Served())], Settings(replicates=1))


def _loops_of_shadows() -> Iterator[Call]:
    """Yield calls that use the loops of shadows, which `load` leaves out: they take 60 MB when loaded."""
    for cls in LEARNERS.values():
        yield partial(_progress_once, cls(problem=_PROBLEM))


def _of_labels(learner: AnyLearner) -> Iterator[Call]:
    """Yield first what a prediction needs, then what a round needs, so that two processes can divide the calls."""
    yield partial(_draw_once, learner)
    yield partial(_fold_once, learner)
    yield lambda: learner.contributions(learner.init(), _CONTEXT)


def _draw_once(learner: AnyLearner) -> None:
    decisions = learner.decide_unchecked(learner.init(), _CONTEXT)
    draw_answers_unchecked(learner, decisions, np.zeros((1, uniforms_per_answer(learner))))


def _fold_once(learner: AnyLearner) -> None:
    answer = np.zeros((1, _PROBLEM.n_labels) if is_structured(learner) else 1, np.int64)
    evidence, bit, one = np.zeros((1, learner.evidence_size)), np.ones(1, np.bool_), np.ones(1)
    learner.fold_unchecked(learner.init(), Rounds.of_bits(_CONTEXT, answer, one, bit, answer, evidence, np.zeros(1)))


def _of_actions(learner: AnyActionLearner) -> Iterator[Call]:
    """Yield calls in the order of `_of_labels`."""
    yield partial(_choose_once, learner)
    rounds = ActionRounds(_CONTEXT, np.ones(1), np.ones(1), np.ones(1, np.int64))
    yield lambda: learner.fold_unchecked(learner.init(), rounds)
    yield lambda: learner.contributions(learner.init(), _CONTEXT)


def _choose_once(learner: AnyActionLearner) -> None:
    starts = np.array([0, 1])
    probabilities = learner.decide_unchecked(learner.init(), Candidates(_CONTEXT, starts, np.empty(0, np.bool_)))
    draw_among(probabilities, starts, np.zeros(1))


def _obey_once() -> None:
    obey_each(NO_LIMITS, np.array([0, 1]), np.empty(0, np.bool_), np.ones(1))


def _pace_once() -> None:
    pacing, budget = new_pacing(), Budget(1.0)
    pace_all(pacing, budget, np.ones(1), np.ones(1), np.zeros(1))
    paced_weight(pacing, budget)


def _progress_once(learner: AnyLearner) -> None:
    number, bit, third = np.zeros(1, np.int64), np.ones(1, np.bool_), np.full(1, 1 / 3)
    evidence = np.empty((1, 0))
    rounds = Rounds(_CONTEXT, number, third, bit, number, evidence, np.zeros(1), np.ones(1), every_label(1))
    progress_unchecked(learner, learner.init(), rounds)


def _logged() -> LoggedRounds:
    one, number, no = np.ones(1), np.ones(1, np.int64), np.zeros(1, np.bool_)
    label = np.zeros(1, np.int64)
    return LoggedRounds(number, label, one, one, every_label(1), number, no, label, _CONTEXT)
