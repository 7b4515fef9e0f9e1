"""Compares learners on labelled data: which one to use, with which settings, and why."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import LearnerError
from learners.estimators.candidates import Candidate, candidates_of, settings_of
from learners.estimators.classes import numbered, read_labels, sorted_classes
from learners.estimators.inputs import read_table
from learners.estimators.processes import Processes
from learners.estimators.report import Comparison, LeftOut, reference_points
from learners.estimators.runs import Examples, Run, play
from learners.estimators.setup import Setup, set_up
from learners.evaluation.comparison import Entrant, Played
from learners.new_models import check_state_size

Players = Callable[[Sequence[Run], Examples], Iterable[Played]]
"""Plays runs, and returns their results in the same order."""

SELECTION_SEEDS = 2
"""The number of seeds that select settings. They do not measure the selected ones, as the best of many is lucky."""

MOST_COST = 3e11
"""The most multiply-adds of a run; a few minutes."""


_MOST_ROUNDS = 10**18
"""More than any run can have, and less than the largest float."""


class Plan(NamedTuple):
    """How to compare."""

    seeds: int = 5
    rounds: int | None = None  # per run; None for one pass over the examples
    tune: bool = False
    random_state: int = 0
    max_state_bytes: int = 2**28  # that of a new model of the service


def compare(
    learners: Iterable[Any],
    X: Any,
    y: Any,
    *,
    seeds: int = 5,
    rounds: int | None = None,
    tune: bool = False,
    random_state: int = 0,
    n_jobs: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Play learners on labelled data, as bandits, over several orders and draws.

    Args:
        learners: a list of names such as "fastcb", dictionaries such as {"algorithm": "gaptron", "loss": "hinge"}, or
            estimators.
        X: (n, d), the rows: lists, an array, a data frame or a sparse matrix.
        y: (n,), the true label of each row.
        seeds: how many orders and draws; at least 2 for intervals.
        rounds: the rounds of each run; n by default. With more, examples repeat after all of them occurred.
        tune: whether to try other settings of each learner too; other seeds select the best of them.
        random_state: an integer that the seeds depend on.
        n_jobs: processes; more than one, or -1 for one on each core, needs joblib. They end before this returns,
            unless joblib had them before.
        clock: seconds of a monotonic clock.

    Raises:
        ValueError: if an argument is invalid.
    """
    table = read_table(X)
    labels = read_labels("y", y, table.contexts.n)
    classes = sorted_classes("y", labels)
    names = tuple(classes.tolist())
    examples = Examples(table.contexts, numbered("y", labels, classes), table.n_features, names)
    if not isinstance(tune, bool | np.bool_):
        raise ValueError(f"tune: got {tune!r}; must be True or False")
    if not callable(clock):
        raise ValueError(f"clock: got {clock!r}; must be a function that returns seconds")
    plan = Plan(_whole("seeds", seeds), rounds, bool(tune), _whole("random_state", random_state, 0))
    with Processes(_jobs(n_jobs)) as processes:
        return contest(candidates_of(learners), examples, plan, _player(processes, clock))


def contest(candidates: Sequence[Candidate], examples: Examples, plan: Plan, players: Players) -> Comparison:
    """Play all runs and return the comparison. Learners that cannot take the examples are left out, with the reason.

    Raises:
        ValueError: if the plan is invalid, if a setting is unknown or invalid, or if no learner is left.
    """
    rounds = examples.n if plan.rounds is None else _whole("rounds", plan.rounds, 4)
    able, left_out = _able(candidates, examples, rounds, plan)
    if not able:
        raise ValueError(f"no learner can take these data; {left_out[0].name}: {left_out[0].reason}")
    chosen = _tuned(able, examples, plan, rounds, players) if plan.tune else able
    runs = [_run(one, "measurement", seed, rounds, plan) for one in chosen for seed in range(plan.seeds)]
    results = list(players(runs, examples))
    entrants = [
        Entrant(one.name, tuple(results[i * plan.seeds : (i + 1) * plan.seeds]), _learns_truth(one, examples))
        for i, one in enumerate(chosen)
    ]
    return Comparison(tuple(entrants), tuple(chosen), tuple(left_out), reference_points(examples), rounds, plan.seeds)


def _able(
    candidates: Sequence[Candidate], examples: Examples, rounds: int, plan: Plan
) -> tuple[list[Candidate], list[LeftOut]]:
    able, left_out = [], []
    for one in candidates:
        try:
            _check_size(one, examples, rounds, plan)
        except LearnerError as error:
            left_out.append(LeftOut(one.name, str(error)))
        else:
            able.append(one)
    return able, left_out


def _check_size(candidate: Candidate, examples: Examples, rounds: int, plan: Plan) -> None:
    setup = set_up(candidate.choice, len(examples.classes), examples.n_features)
    learner = setup.learner
    check_state_size(learner, plan.max_state_bytes)
    if setup.preparation.policy == "reject":
        _check_norms(setup, examples)
    nonzeros = examples.contexts.mean_nonzeros + 1
    cost = float(min(rounds, _MOST_ROUNDS)) * (learner.decide_cost(nonzeros) + learner.fold_cost(nonzeros))
    if cost > MOST_COST:
        raise LearnerError(f"a run would take about {cost:.0e} multiply-adds, more than {MOST_COST:.0e}")


def _check_norms(setup: Setup, examples: Examples) -> None:
    try:
        setup.prepared(examples.contexts)
    except ValueError as error:
        raise LearnerError(str(error)) from error


def _tuned(able: Sequence[Candidate], examples: Examples, plan: Plan, rounds: int, players: Players) -> list[Candidate]:
    """Return each candidate, followed by its best setting if that is another one."""
    settings = [_able(settings_of(one), examples, rounds, plan)[0] for one in able]
    flat = [one for each in settings for one in each]
    seeds = range(SELECTION_SEEDS)
    results = iter(players([_run(one, "selection", seed, rounds, plan) for one in flat for seed in seeds], examples))
    errors = {one.name: float(np.mean([next(results).error for _ in seeds])) for one in flat}
    chosen: dict[str, Candidate] = {}
    for one, each in zip(able, settings, strict=True):
        best = min(each, key=lambda setting: errors[setting.name])
        chosen |= {one.name: one, best.name: best}
    return list(chosen.values())


def _run(candidate: Candidate, stage: Any, seed: int, rounds: int, plan: Plan) -> Run:
    return Run(candidate, stage, seed, rounds, plan.random_state)


def _learns_truth(candidate: Candidate, examples: Examples) -> bool:
    return set_up(candidate.choice, len(examples.classes), examples.n_features).learner.needs_true_label


def _whole(name: str, given: Any, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise ValueError(f"{name}: got {given!r}; must be an integer from {least}")
    return int(given)


def _jobs(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given == 0:
        raise ValueError(f"n_jobs: got {given!r}; must be an integer from 1, or -1 for one on each core")
    return int(given)


def _player(processes: Processes, clock: Callable[[], float]) -> Players:
    def play_all(runs: Sequence[Run], examples: Examples) -> Iterable[Played]:
        try:
            return processes.map(play, runs, examples, clock)
        except ImportError as error:
            raise ValueError("n_jobs: more than one process needs joblib: install wager[tools]") from error

    return play_all
