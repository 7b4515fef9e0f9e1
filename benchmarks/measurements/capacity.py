"""Workers and shards that a load needs, computed by `benchmarks.sizing` from costs measured in this run."""

from collections.abc import Iterator, Sequence

from benchmarks.measurements.hot import LAG, WORKERS, cost_of_decisions, measure_hot
from benchmarks.measurements.memory import WHAT, measure_memory
from benchmarks.report import Row, print_rows, seen
from benchmarks.server import running
from benchmarks.sizing import CORE, SHARD_MEMORY, Costs, HotCosts, LinearCost, fit, hot_limit, plan
from benchmarks.traffic import SMALL, create_model
from service.schemas.models import ModelDefinition

REQUESTS = (10_000, 100_000, 1_000_000)  # per second
WINDOWS = {"1 h": 3_600.0, "24 h": 86_400.0}
_MODELS = 10
_RETAINED: int = ModelDefinition.model_fields["retain_rounds"].default


def measure_costs(n: int, workers: Sequence[int] = WORKERS) -> Costs:
    """Measure the costs of a decision on one worker, and on a model that several workers serve."""
    with running() as server:
        names = [f"m{i}" for i in range(_MODELS)]
        for name in names:
            create_model(server, name, algorithm="gaptron")
        cost = cost_of_decisions(server, n, names)
        memory = measure_memory(server, 10 * n)
    return Costs(
        worker_seconds=cost.worker_seconds,
        store_seconds=cost.store_seconds,
        commands=cost.commands,
        traffic=cost.bytes,
        prediction_bytes=memory.prediction,
        round_bytes=memory.round,
        hot=_measure_hot(n, workers, 0.0),
        lagging=_measure_hot(n, workers, LAG),
    )


def _measure_hot(n: int, workers: Sequence[int], lag: float) -> HotCosts:
    found = {count: measure_hot(count, n, lag) for count in workers}
    worker_seconds = fit({count: each.worker_seconds for count, each in found.items()})
    return HotCosts(worker_seconds, fit({count: each.store_seconds for count, each in found.items()}))


def rows_of(costs: Costs) -> Iterator[Row]:
    """Yield the rows for measured costs."""
    yield seen(
        f"a decision, one worker, {_MODELS} models, {SMALL}",
        f"worker {_us(costs.worker_seconds)}, store {_us(costs.store_seconds)}",
        f"{costs.commands:.2f} commands, {costs.traffic:,.0f} bytes",
    )
    yield seen(
        f"memory in the store, {WHAT}",
        f"{costs.prediction_bytes:,.0f} bytes a prediction",
        f"{costs.round_bytes:,.0f} bytes a round in the log; {_RETAINED:,} retained of a model",
    )
    for requests in REQUESTS:
        yield from _plan_rows(costs, requests)
    yield from _hot_rows(costs.hot, "")
    yield from _hot_rows(costs.lagging, f", lag {LAG:g} s")


def _plan_rows(costs: Costs, requests: int) -> Iterator[Row]:
    for name, window in WINDOWS.items():
        needs = plan(costs, requests, window)
        yield seen(
            f"{requests:,} requests/s, window {name}",
            f"{_count(needs.workers, 'worker')}, {_count(needs.shards, 'shard')}, {needs.memory / 2**30:,.0f} GiB",
            f"exhausted first: {needs.first}; shards set by {needs.by}",
        )


def _hot_rows(costs: HotCosts, lag: str) -> Iterator[Row]:
    yield seen(
        f"a decision on one model that W workers serve{lag}",
        f"store {_line(costs.store_seconds)}",
        f"workers {_line(costs.worker_seconds)}",
    )
    limit = hot_limit(costs)
    yield seen(
        f"highest rate of one model{lag}",
        f"{limit.rounds:,.0f} rounds/s with {_count(limit.workers, 'worker')}",
        f"limited by {limit.by}; from a line through W = {', '.join(map(str, WORKERS))}",
    )


def rows(n: int = 8_000) -> list[Row]:
    """Return the table of capacity, for cores used up to `CORE` and shards of `SHARD_MEMORY`."""
    return list(rows_of(measure_costs(n)))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def _line(line: LinearCost) -> str:
    return f"{line.base * 1e6:,.1f} + {line.per_worker * 1e6:,.1f}·W µs"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n > 1)}"


if __name__ == "__main__":
    print_rows(f"Capacity, cores at {CORE:.0%}, shards of {SHARD_MEMORY / 2**30:.0f} GiB", rows())
