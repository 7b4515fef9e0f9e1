"""Compares learners on labelled data: which one to use, with which settings, and why."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import LearnerError
from learners.estimators.candidates import Candidate, candidates_of, settings_of
from learners.estimators.inputs import numbered, read_labels, read_table, sorted_classes
from learners.estimators.processes import Processes
from learners.estimators.report import Comparison, LeftOut, Spent, reference_points
from learners.estimators.runs import Examples, Run, Stage, play
from learners.estimators.setup import Setup, set_up
from learners.evaluation.comparison import Entrant, Played
from learners.new_models import check_state_size

Players = Callable[[Sequence[Run], Examples], Iterable[Played]]
"""Plays runs, and returns their results in the same order."""

SELECTION_SEEDS = 2
"""The number of seeds that select settings. Other seeds measure them: the lowest of many errors is biased downwards."""

MOST_COST = 3e11  # the maximum multiply-adds of a run, which take a few minutes


_MOST_ROUNDS = 10**18  # a larger integer might not fit into a float; a run of more rounds is too costly anyway


class Plan(NamedTuple):
    """The settings of a comparison."""

    seeds: int = 5
    rounds: int | None = None  # per run; None for one pass over the examples
    tune: bool = False
    random_state: int = 0
    max_state_bytes: int = 2**28  # the limit for a new model of the service
    in_order: bool = False  # whether runs play the examples in their own order, for examples that drift

    def runs(self, candidates: Iterable[Candidate], stage: Stage, seeds: int, rounds: int) -> list[Run]:
        """Return a run for each candidate and seed."""
        rest = rounds, self.random_state, self.in_order
        return [Run(one, stage, seed, *rest) for one in candidates for seed in range(seeds)]


def compare(
    learners: Iterable[Any],
    X: object,
    y: object,
    *,
    seeds: int = 5,
    rounds: int | None = None,
    tune: bool = False,
    random_state: int = 0,
    in_order: bool = False,
    n_jobs: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Play learners on labelled data X (n, d) and y (n,), as bandits, over several orders and draws.

    Learners are names such as "fastcb", dictionaries such as {"algorithm": "gaptron", "loss": "hinge"}, or estimators.
    Intervals need at least 2 `seeds`. A run has n `rounds` by default; with more, examples repeat once all of them
    have occurred. With `tune`, other settings of each learner are tried too; the seeds that select the best are not
    those that measure it. All seeds depend on `random_state`, an integer from 0 to 2**32 - 1. With `in_order`, for
    examples that drift, every run has the order of the rows, and seeds decide only the draws. With joblib, `n_jobs`
    processes compute the runs; -1 means one on each core. They end before `compare` returns, unless joblib had started
    them earlier. The clock returns seconds and is monotonic. Raises `ValueError` if an argument is invalid.
    """
    table = read_table(X)
    labels = read_labels("y", y, table.contexts.n)
    classes = sorted_classes("y", labels)
    names = tuple(classes.tolist())
    examples = Examples(table.contexts, numbered("y", labels, classes), table.n_features, names)
    if not callable(clock):
        raise ValueError(f"clock: got {clock!r}; must be a function that returns seconds")
    plan = Plan(
        _whole("seeds", seeds),
        rounds,
        _flag("tune", tune),
        _whole("random_state", random_state, 0, 2**32 - 1),
        in_order=_flag("in_order", in_order),
    )
    with Processes(_jobs(n_jobs)) as processes:
        return contest(candidates_of(learners), examples, plan, _player(processes, clock))


def contest(candidates: Sequence[Candidate], examples: Examples, plan: Plan, players: Players) -> Comparison:
    """Play and compare the candidates that fit the examples. Raises `ValueError` if none does or a setting is bad."""
    rounds = examples.n if plan.rounds is None else _whole("rounds", plan.rounds, 4)
    able, left_out = _able(candidates, examples, rounds, plan)
    if not able:
        raise ValueError(f"no learner can take these data; {left_out[0].name}: {left_out[0].reason}")
    finished = list[Played]()

    def play_all(runs: Sequence[Run], examples: Examples) -> list[Played]:
        results = list(players(runs, examples))
        finished.extend(results)
        return results

    chosen = _tuned(able, examples, plan, rounds, play_all) if plan.tune else able
    results = play_all(plan.runs(chosen, "measurement", plan.seeds, rounds), examples)
    entrants = [
        Entrant(
            one.name,
            tuple(results[i * plan.seeds : (i + 1) * plan.seeds]),
            _set_up(one, examples).learner.needs_true_label,
        )
        for i, one in enumerate(chosen)
    ]
    spent = Spent(sum(each.seconds for each in finished), sum(each.preparation_seconds for each in finished))
    learners = tuple(entrants), tuple(chosen), tuple(left_out)
    return Comparison(*learners, reference_points(examples), rounds, plan.seeds, spent)


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
    setup = _set_up(candidate, examples)
    learner = setup.learner
    check_state_size(learner, plan.max_state_bytes)
    if setup.preparation.policy == "reject":
        try:
            setup.prepared(examples.contexts)
        except ValueError as error:
            raise LearnerError(str(error)) from error
    nonzeros = examples.contexts.mean_nonzeros + 1
    cost = float(min(rounds, _MOST_ROUNDS)) * (learner.decide_cost(nonzeros) + learner.fold_cost(nonzeros))
    if cost > MOST_COST:
        raise LearnerError(f"a run would take about {cost:.0e} multiply-adds, more than {MOST_COST:.0e}")


def _tuned(able: Sequence[Candidate], examples: Examples, plan: Plan, rounds: int, players: Players) -> list[Candidate]:
    settings = [_able(settings_of(one), examples, rounds, plan)[0] for one in able]
    flat = [one for each in settings for one in each]
    results = iter(players(plan.runs(flat, "selection", SELECTION_SEEDS, rounds), examples))
    errors = {one.name: float(np.mean([next(results).error for _ in range(SELECTION_SEEDS)])) for one in flat}
    chosen: dict[str, Candidate] = {}
    for one, each in zip(able, settings, strict=True):
        best = min(each, key=lambda setting: errors[setting.name])
        chosen |= {one.name: one, best.name: best}
    return list(chosen.values())


def _set_up(candidate: Candidate, examples: Examples) -> Setup:
    return set_up(candidate.choice, len(examples.classes), examples.n_features)


def _whole(name: str, given: object, least: int = 1, most: float = math.inf) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not least <= given <= most:
        upper = f" to {most}" if most < math.inf else ""
        raise ValueError(f"{name}: got {given!r}; must be an integer from {least}{upper}")
    return int(given)


def _flag(name: str, given: object) -> bool:
    if not isinstance(given, bool | np.bool_):
        raise ValueError(f"{name}: got {given!r}; must be True or False")
    return bool(given)


def _jobs(given: object) -> int:
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
