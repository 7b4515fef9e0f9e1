"""Measure how much preparing contexts improves accuracy: `python -m benchmarks.preparation`.

A synthetic task with three labels and two features, age and income: the right label is "young" below an age of 35,
otherwise "poor" below an income of 40,000, otherwise "rich". The default learner plays it with raw and with scaled
numbers, with and without the intercept that the service adds.
"""

from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.evaluation.simulation import simulate
from learners.mathematics.preparation import Preparation, prepare
from learners.registry import RECOMMENDED

ROUNDS, SEEDS = 6_000, 10


def people(rng: np.random.Generator, n: int) -> tuple[FloatArray, IntArray]:
    """Return n rows of age in years and income (n, 2), and the right label of each (n,)."""
    age, income = rng.uniform(18.0, 80.0, n), rng.lognormal(10.5, 0.6, n)
    return np.column_stack([age, income]), np.where(age < 35.0, 0, np.where(income < 40_000.0, 1, 2))


def _raw(rows: FloatArray) -> FloatArray:
    return rows


def _scaled(rows: FloatArray) -> FloatArray:
    return np.column_stack([(rows[:, 0] - 49.0) / 18.0, (np.log(rows[:, 1]) - 10.5) / 0.6])


SCALINGS: dict[str, Callable[[FloatArray], FloatArray]] = {"raw": _raw, "scaled": _scaled}


def accuracy(scale: Callable[[FloatArray], FloatArray], intercept: bool, seed: int) -> float:
    """Return the share of right answers in the second half of the rounds."""
    rng = np.random.default_rng(seed)
    rows, right = people(rng, ROUNDS)
    preparation = Preparation(RECOMMENDED.norm_policy, 1.0, intercept, rows.shape[1])
    contexts = prepare(Contexts.dense(scale(rows)), preparation)
    learner = RECOMMENDED(problem=Problem(n_labels=3, n_features=rows.shape[1] + intercept))
    mistakes = simulate(learner, contexts, right, rng.random(ROUNDS)).mistakes
    return 1.0 - float(mistakes[ROUNDS // 2 :].mean())


def main() -> None:
    """Print the mean accuracy of each preparation, and its spread over the seeds."""
    table = Table("context", "right, second half", "standard deviation", title=f"{ROUNDS:,} rounds, {SEEDS} seeds")
    for intercept in (False, True):
        for name, scale in SCALINGS.items():
            found = [accuracy(scale, intercept, seed) for seed in range(SEEDS)]
            what = f"{name}, with intercept" if intercept else name
            table.add_row(what, f"{np.mean(found):.3f}", f"{np.std(found):.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
