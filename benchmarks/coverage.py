"""How often the intervals of off-policy estimates cover the true value: `python -m benchmarks.coverage`.

Each log is simulated: four contexts, three labels, a logging policy that prefers one label, bits as rewards. The
evaluated policy prefers another label in half of the contexts. Its value is known exactly, by enumeration.
"""

from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from learners.base import NO_LABEL, Contexts, FloatArray, every_label
from learners.evaluation.off_policy.estimates import evaluation_of
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.policies import GivenDistributions
from learners.evaluation.off_policy.reward_model import RewardModel, RewardProblem, reward_sums
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated, sums_of

_REWARDS = np.array([[0.7, 0.4, 0.2], [0.3, 0.5, 0.2], [0.2, 0.6, 0.5], [0.5, 0.1, 0.3]])
_LOGGING = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.6, 0.2, 0.2], [0.4, 0.2, 0.4]])
_TARGET = np.array([[0.6, 0.2, 0.2], [0.1, 0.7, 0.2], [0.1, 0.5, 0.4], [0.6, 0.1, 0.3]])

VALUE = float((_TARGET * _REWARDS).sum(axis=1).mean())
"""The value of the evaluated policy."""

CONSERVATIVE = "conservative"


class Covered(NamedTuple):
    """What the intervals of one kind do over many logs."""

    share: float  # of the logs whose interval covers the value
    mean: float  # of the estimates; of the middles of conservative intervals
    width: float  # mean width


def simulated(rounds: int, seed: int, scale: float = 1.0) -> tuple[LoggedRounds, FloatArray]:
    """Return a log, and the distributions of the evaluated policy, (n, 3); `scale` multiplies chances of rewards."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, 4, rounds)
    p = _LOGGING[context]
    labels = (p.cumsum(axis=1) < rng.random(rounds)[:, None]).sum(axis=1).clip(0, 2).astype(np.int64)
    rewards = (rng.random(rounds) < scale * _REWARDS[context, labels]).astype(np.float64)
    chosen, nobody = p[np.arange(rounds), labels], np.zeros(rounds, np.bool_)
    numbers, truths = np.arange(1, rounds + 1), np.full(rounds, NO_LABEL)
    counts, contexts = np.full(rounds, 3), Contexts.dense(np.eye(4)[context])
    everyone = every_label(rounds)
    log = LoggedRounds(numbers, labels, chosen, rewards, everyone, counts, nobody, truths, contexts)
    return log, _TARGET[context]


def coverage(logs: int, rounds: int, replicates: int, scale: float = 1.0) -> dict[str, Covered]:
    """Return what the intervals of each estimator do, at the level 0.95."""
    found: dict[str, list[tuple[bool, float, float]]] = {}
    problem, truth = RewardProblem(3, 1), scale * VALUE
    for seed in range(logs):
        log, distributions = simulated(rounds, seed, scale)
        settings = Settings(seed, replicates, 20.0)
        model = RewardModel(reward_sums(log, problem), problem)
        (sums,) = sums_of(log, [Evaluated(GivenDistributions(distributions))], settings, model)
        evaluation = evaluation_of(sums, settings)
        low, high = evaluation.conservative
        found.setdefault(CONSERVATIVE, []).append((low <= truth <= high, (low + high) / 2.0, high - low))
        for name, value, interval, _ in evaluation.estimates:
            if value is not None and interval is not None:
                covers = interval.low <= truth <= interval.high
                found.setdefault(name, []).append((covers, value, interval.high - interval.low))
    return {name: Covered(*np.mean(each, axis=0).tolist()) for name, each in found.items()}


def main(
    logs: Annotated[int, typer.Option(min=1)] = 1000,
    rounds: Annotated[int, typer.Option(min=10)] = 2000,
    replicates: Annotated[int, typer.Option(min=20)] = 1000,
    scale: Annotated[float, typer.Option(min=1e-4, max=1.0, help="Multiplies the chance of a reward.")] = 1.0,
) -> None:
    """Print the coverage of each estimator's intervals at the level 0.95."""
    title = f"{logs:,} logs of {rounds:,} rounds; the value is {scale * VALUE:.4f}"
    table = Table("intervals", "coverage", "mean estimate", "mean width", title=title)
    for name, (share, mean, width) in coverage(logs, rounds, replicates, scale).items():
        table.add_row(name, f"{share:.1%}", f"{mean:.4f}", f"{width:.4f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
