"""The needs of a load are arithmetic on measured costs, here with round numbers."""

import math

import pytest

from benchmarks.measurements.capacity import rows_of
from benchmarks.sizing import (
    CORE,
    NETWORK,
    SHARD_MEMORY,
    Costs,
    HotCosts,
    LinearCost,
    Plan,
    fit,
    hot_limit,
    plan,
    saturation,
)

COSTS = Costs(
    worker_seconds=100e-6,
    store_seconds=10e-6,
    commands=1.0,
    traffic=1_000.0,
    prediction_bytes=500.0,
    round_bytes=300.0,
    hot=HotCosts(LinearCost(50e-6, 50e-6), LinearCost(9e-6, 1e-6)),
    lagging=HotCosts(LinearCost(50e-6, 5e-6), LinearCost(6e-6, 0.0)),
)
HOUR = 3_600.0


def test_a_plan_divides_the_load_by_the_limits() -> None:
    """Plan 50,000 decisions a second, which take 5 seconds of workers and half a second of the store."""
    needs = plan(COSTS, 100_000, HOUR)
    memory = 50_000 * 2 * HOUR * 500.0  # the window and the hour after it
    assert needs == Plan(math.ceil(5 / CORE), math.ceil(memory / SHARD_MEMORY), memory, "a worker's core", needs.by)
    assert needs.by == "a shard's memory"


def test_ten_times_the_load_needs_ten_times_as_much() -> None:
    """Scale up to rounding to whole machines."""
    for window in (HOUR, 24 * HOUR):
        small, large = plan(COSTS, 100_000, window), plan(COSTS, 1_000_000, window)
        assert large.memory == pytest.approx(10 * small.memory)
        assert 9 * small.shards <= large.shards <= 10 * small.shards
        assert 9 * small.workers <= large.workers <= 10 * small.workers


def test_a_small_load_needs_one_of_each() -> None:
    """Round up to one."""
    needs = plan(COSTS, 1, HOUR)
    assert (needs.workers, needs.shards) == (1, 1)


def test_rounds_that_are_retained_take_memory() -> None:
    """Count retained rounds, which can set the number of shards."""
    needs, kept = plan(COSTS, 1, HOUR), plan(COSTS, 1, HOUR, retained=10 * SHARD_MEMORY / 300)
    assert kept.memory - needs.memory == pytest.approx(10 * SHARD_MEMORY)
    assert (kept.shards, kept.by) == (11, "a shard's memory")


@pytest.mark.parametrize(
    ("costs", "first"),
    [
        (COSTS, "a worker's core"),
        (COSTS._replace(store_seconds=200e-6), "a shard's core"),
        (COSTS._replace(traffic=10 * NETWORK * 100e-6), "a shard's network"),
        (COSTS._replace(prediction_bytes=1e6), "a shard's memory"),
    ],
)
def test_the_costliest_resource_is_exhausted_first(costs: Costs, first: str) -> None:
    """Compare one worker's core with one shard's core, network and memory."""
    limits = saturation(costs, HOUR)
    assert min(limits, key=lambda name: limits[name]) == plan(costs, 10_000, HOUR).first == first


def test_a_hot_model_is_limited_by_its_workers_or_its_shard() -> None:
    """Bound the rate by that of one worker that only folds, because each worker folds every round."""
    by_workers = hot_limit(COSTS.hot)
    assert by_workers.by == "its workers' cores"
    assert 0.8 * CORE / 50e-6 < by_workers.rounds < CORE / 50e-6
    by_store = hot_limit(COSTS.hot._replace(store_seconds=LinearCost(79e-6, 1e-6)))
    assert by_store.by == "its shard's core"
    assert by_store.workers == 2  # one worker handles 7,000 rounds; two could handle 9,333, the store fewer:
    assert by_store.rounds == pytest.approx(CORE / 81e-6)


def test_the_hot_limit_is_where_one_more_worker_lowers_the_rate() -> None:
    """Find the maximum over numbers of workers."""
    limit = hot_limit(COSTS.hot)
    rates = [
        min(
            CORE * workers / COSTS.hot.worker_seconds.at(workers),
            CORE / COSTS.hot.store_seconds.at(workers),
        )
        for workers in (limit.workers - 1, limit.workers, limit.workers + 1)
    ]
    assert rates[1] == limit.rounds == max(rates)


def test_a_line_is_recovered() -> None:
    """Fit points on a line exactly, and other points by least squares."""
    line = fit({workers: 5.0 + 2.0 * workers for workers in (1, 2, 4)})
    assert line.base == pytest.approx(5.0)
    assert line.per_worker == pytest.approx(2.0)
    assert fit({1: 6.0, 2: 10.0, 4: 12.0}).at(2) == pytest.approx(61 / 7)  # the normal equations, by hand


@pytest.mark.parametrize("costs", [{1: 9.0, 2: 8.0, 4: 7.0}, {1: 1.0, 2: 4.0, 4: 16.0}])
def test_no_cost_is_negative(costs: dict[int, float]) -> None:
    """Keep both parts at 0 or above, for costs that fall with the workers or rise faster than a line."""
    line = fit(costs)
    assert line.base >= 0
    assert line.per_worker >= 0
    assert line.at(1) > 0


def test_a_line_needs_two_points() -> None:
    """Reject a single point, which shows no growth."""
    with pytest.raises(ValueError, match="two points"):
        fit({1: 5.0})


def test_every_load_and_window_has_its_row() -> None:
    """Include two rows of the hot model, and two if its predictions may lag."""
    table = {row.what: row for row in rows_of(COSTS)}
    assert len(table) == 12
    row = table["100,000 requests/s, window 1 h"]
    assert row.figure.startswith("8 workers, 3 shards, 168 GiB")
    assert row.baseline == "exhausted first: a worker's core; shards set by a shard's memory"
