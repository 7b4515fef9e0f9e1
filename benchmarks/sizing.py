"""How many workers and shards a load needs, and what ends first: arithmetic on measured costs, nothing else.

A decision is a prediction and its feedback: two requests. Each model's requests go to one worker (a balancer that
hashes the model's name); a hot model is one that needs several, and then every one of them folds every round of it.
"""

import math
from typing import NamedTuple

from service.models.model import FORGET_AFTER

CORE = 0.7
"""Share of a core that is planned with: beyond it, requests wait."""

NETWORK = 0.7 * 10e9 / 8
"""Bytes per second of a link of 10 Gbit/s, both ways together, that are planned with."""

SHARD_MEMORY = 64 * 2**30
"""Bytes that one shard may hold."""

_MOST_WORKERS = 1_000


class LinearCost(NamedTuple):
    """A cost that grows with the workers that serve one model."""

    base: float
    per_worker: float

    def at(self, workers: int) -> float:
        """The cost with so many."""
        return self.base + self.per_worker * workers


class Costs(NamedTuple):
    """What was measured."""

    worker_seconds: float  # on a core, for a decision
    store_seconds: float  # on a core, for a decision
    commands: float  # for a decision
    traffic: float  # bytes over the store's connections, for a decision
    prediction_bytes: float  # of memory until it is forgotten
    round_bytes: float  # of memory in the log
    hot_worker_seconds: LinearCost  # all workers together, for a decision on the one model that all of them serve
    hot_store_seconds: LinearCost


class Plan(NamedTuple):
    """What a load needs."""

    workers: int  # each with a core
    shards: int
    memory: float  # bytes, over all shards
    first: str  # of `saturation`
    by: str  # what asks for so many shards


class HotLimit(NamedTuple):
    """The most rounds per second of one model."""

    rounds: float  # per second
    workers: int  # that it takes
    by: str  # what ends it


def saturation(costs: Costs, window: float) -> dict[str, float]:
    """Decisions per second at which one of each is full: a worker's core, and a shard's core, network and memory.

    Args:
        costs: measured.
        window: seconds that a prediction waits for its feedback; the store keeps it for an hour more.
    """
    return {
        "a worker's core": CORE / costs.worker_seconds,
        "a shard's core": CORE / costs.store_seconds,
        "a shard's network": NETWORK / costs.traffic,
        "a shard's memory": SHARD_MEMORY / (costs.prediction_bytes * (window + FORGET_AFTER)),
    }


def plan(costs: Costs, requests: float, window: float, retained: float = 0.0) -> Plan:
    """What so many requests per second need.

    Args:
        costs: measured.
        requests: per second, half of them predictions.
        window: seconds that a prediction waits for its feedback.
        retained: rounds that the logs of all models keep together.
    """
    decisions, limits = requests / 2, saturation(costs, window)
    memory = decisions * (window + FORGET_AFTER) * costs.prediction_bytes + retained * costs.round_bytes
    needed = {name: decisions / limit for name, limit in limits.items()} | {"a shard's memory": memory / SHARD_MEMORY}
    workers = max(1, math.ceil(needed.pop("a worker's core")))
    by = max(needed, key=lambda name: needed[name])
    first = min(limits, key=lambda name: limits[name])
    return Plan(workers, max(1, math.ceil(needed[by])), memory, first, by)


def hot_limit(costs: Costs) -> HotLimit:
    """The most that one model bears: its log is on one shard, and each worker that serves it folds all of it."""
    return max((_with_workers(costs, workers) for workers in range(1, _MOST_WORKERS + 1)), key=lambda it: it.rounds)


def _with_workers(costs: Costs, workers: int) -> HotLimit:
    by_workers = CORE * workers / costs.hot_worker_seconds.at(workers)
    by_store = CORE / costs.hot_store_seconds.at(workers)
    if by_workers < by_store:
        return HotLimit(by_workers, workers, "its workers' cores")
    return HotLimit(by_store, workers, "its shard's core")


def fit(costs: dict[int, float]) -> LinearCost:
    """The line a + b·W through costs measured with W workers, by least squares; no part of it is below 0.

    Raises:
        ValueError: if it was measured with fewer than two numbers of workers.
    """
    n = len(costs)
    if n < 2:
        raise ValueError("a line needs two points")
    mean, mean_cost = sum(costs) / n, sum(costs.values()) / n
    covariance = sum((workers - mean) * (cost - mean_cost) for workers, cost in costs.items())
    slope = max(0.0, covariance / sum((workers - mean) ** 2 for workers in costs))
    base = max(0.0, mean_cost - slope * mean)
    return LinearCost(base, slope if base else mean_cost / mean)
