"""Workers and shards that a load needs, and the resource that is exhausted first: arithmetic on measured costs.

A decision is a prediction and its feedback: two requests. A balancer hashes the model's name, so all requests of a
model go to one worker. A hot model needs several workers, and each of them folds all of its rounds.
"""

import math
from typing import NamedTuple

from service.models.policies import FORGET_AFTER

CORE = 0.7
"""Planned share of a core; above it, requests queue."""

NETWORK = 0.7 * 10e9 / 8
"""Planned bytes per second of a 10 Gbit/s link, both directions together."""

SHARD_MEMORY = 64 * 2**30
"""Planned bytes of memory per shard."""

_MOST_WORKERS = 1_000


class LinearCost(NamedTuple):
    """A cost that is linear in the number of workers that serve one model."""

    base: float
    per_worker: float

    def at(self, workers: int) -> float:
        """Return the cost with this number of workers."""
        return self.base + self.per_worker * workers


class HotCosts(NamedTuple):
    """Measured processor time per decision on a model that several workers serve; the workers together, the store."""

    worker_seconds: LinearCost
    store_seconds: LinearCost


class Costs(NamedTuple):
    """Measured costs."""

    worker_seconds: float  # processor time per decision
    store_seconds: float  # processor time per decision
    commands: float  # per decision
    traffic: float  # bytes over the store's connections per decision
    prediction_bytes: float  # memory of a prediction until it expires
    round_bytes: float  # memory of a round in the log
    hot: HotCosts  # predictions include every round acknowledged before
    lagging: HotCosts  # predictions may lag


class Plan(NamedTuple):
    """The resources that a load needs."""

    workers: int  # one core each
    shards: int
    memory: float  # bytes, over all shards
    first: str  # the resource that is exhausted first, a key of `saturation`
    by: str  # the resource that sets the number of shards


class HotLimit(NamedTuple):
    """The highest rate of one model."""

    rounds: float  # per second
    workers: int  # number of workers at this rate
    by: str  # the resource that is exhausted


def saturation(costs: Costs, window: float) -> dict[str, float]:
    """Return the decisions per second that exhaust each resource of one worker and one shard.

    Args:
        costs: measured costs.
        window: seconds that a prediction waits for its feedback; the store keeps it `FORGET_AFTER` seconds longer.
    """
    return {
        "a worker's core": CORE / costs.worker_seconds,
        "a shard's core": CORE / costs.store_seconds,
        "a shard's network": NETWORK / costs.traffic,
        "a shard's memory": SHARD_MEMORY / (costs.prediction_bytes * (window + FORGET_AFTER)),
    }


def plan(costs: Costs, requests: float, window: float, retained: float = 0.0) -> Plan:
    """Return the resources that a load needs.

    Args:
        costs: measured costs.
        requests: requests per second, half of them predictions.
        window: seconds that a prediction waits for its feedback.
        retained: rounds in the logs of all models together.
    """
    decisions, limits = requests / 2, saturation(costs, window)
    memory = decisions * (window + FORGET_AFTER) * costs.prediction_bytes + retained * costs.round_bytes
    needed = {name: decisions / limit for name, limit in limits.items()} | {"a shard's memory": memory / SHARD_MEMORY}
    workers = max(1, math.ceil(needed.pop("a worker's core")))
    by = max(needed, key=lambda name: needed[name])
    first = min(limits, key=lambda name: limits[name])
    return Plan(workers, max(1, math.ceil(needed[by])), memory, first, by)


def hot_limit(costs: HotCosts) -> HotLimit:
    """Return the highest rate of one model. Its log is on one shard, and each of its workers folds the whole log."""
    return max((_with_workers(costs, workers) for workers in range(1, _MOST_WORKERS + 1)), key=lambda it: it.rounds)


def _with_workers(costs: HotCosts, workers: int) -> HotLimit:
    by_workers = CORE * workers / costs.worker_seconds.at(workers)
    by_store = CORE / costs.store_seconds.at(workers)
    if by_workers < by_store:
        return HotLimit(by_workers, workers, "its workers' cores")
    return HotLimit(by_store, workers, "its shard's core")


def fit(costs: dict[int, float]) -> LinearCost:
    """Fit the line a + b·W to costs measured with W workers, by least squares, then adjusted so that a ≥ 0 and b ≥ 0.

    Raises:
        ValueError: if fewer than two numbers of workers were measured.
    """
    n = len(costs)
    if n < 2:
        raise ValueError("a line needs two points")
    mean, mean_cost = sum(costs) / n, sum(costs.values()) / n
    covariance = sum((workers - mean) * (cost - mean_cost) for workers, cost in costs.items())
    slope = max(0.0, covariance / sum((workers - mean) ** 2 for workers in costs))
    base = max(0.0, mean_cost - slope * mean)
    return LinearCost(base, slope if base else mean_cost / mean)
