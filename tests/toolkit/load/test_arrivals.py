"""The laws of arrivals, latency histograms and synthetic examples."""

import itertools
import json

import numpy as np
import pytest

from toolkit.load.models import examples
from toolkit.load.plan import Plan
from toolkit.load.timing import Histogram, Measured, poisson_times, times_within

URL = "http://127.0.0.1:8000"


def test_arrivals_depend_on_the_seed_only() -> None:
    """Equal seeds give equal, ascending arrival times; different seeds give different times."""
    first, again, other = (
        list(itertools.islice(poisson_times(100.0, np.random.default_rng(seed)), 10_000)) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first == sorted(first)


def test_arrivals_are_a_poisson_process() -> None:
    """Counts per second have the mean and variance of a Poisson process; gaps have the exponential median."""
    rate, seconds = 50.0, 2000
    times = np.array(list(times_within(rate, seconds, np.random.default_rng(3))))
    counts = np.bincount(times.astype(int), minlength=seconds)
    assert times[-1] < seconds
    assert counts.mean() == pytest.approx(rate, rel=0.02)  # 6 standard errors
    assert counts.var() == pytest.approx(rate, rel=0.15)
    gaps = np.diff(times)
    assert (gaps < np.log(2) / rate).mean() == pytest.approx(0.5, abs=0.01)
    assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 100.0])
def test_percentiles_match_those_of_the_durations(scale: float) -> None:
    """From microseconds to minutes, percentiles match numpy's to one part in a thousand, or one microsecond."""
    seconds = scale * np.random.default_rng(4).lognormal(0, 2, 20_001)
    histogram = Histogram()
    for each in seconds.tolist():
        histogram.add(each)
    for percent in (0.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0):
        exact = float(np.percentile(seconds, percent, method="inverted_cdf"))
        assert histogram.percentile(percent) == pytest.approx(exact, rel=1e-3, abs=1e-6), percent
    assert histogram.greatest == pytest.approx(seconds.max(), abs=1e-6)
    assert len(histogram) == len(seconds)


def test_merged_measurements_equal_those_of_one_process() -> None:
    """Merged measurements equal the measurement of all durations in one process."""
    durations = np.random.default_rng(5).exponential(0.01, 2000).tolist()
    parts = [Measured(seconds=10.0, due=n, answered=n) for n in (500, 1500)]
    whole = Measured(seconds=10.0, due=2000, answered=2000)
    for i, each in enumerate(durations):
        parts[i % 2].latency.add(each)
        whole.latency.add(each)
    merged = Measured()
    for part in parts:
        merged.merge(part)
    assert merged == whole
    assert merged.offered == 200.0
    assert Histogram().percentile(50) == 0.0


def test_examples_depend_on_seed_and_process_only() -> None:
    """Equal seeds give equal examples; processes have different contexts around the same class centres."""
    plan, other = Plan(url=URL, seed=1), Plan(url=URL, seed=2)
    assert examples(plan, 0) == examples(plan, 0) != examples(plan, 1)
    assert examples(plan, 0) != examples(other, 0)
    assert len({example.label for example in examples(plan, 0)}) == plan.labels
    assert all(len(json.loads(example.context)) == plan.features for example in examples(plan, 0)[:50])


def test_sparse_contexts_have_the_requested_nonzeros() -> None:
    """Sparse contexts have distinct indices within the size and about `nonzeros` entries, whatever the size."""
    plan = Plan(url=URL, features=2**31 - 1, nonzeros=30)
    for example in examples(plan, 0)[:50]:
        context = json.loads(example.context)
        assert len(set(context["indices"])) == len(context["indices"]) == len(context["values"])
        assert 28 <= len(context["indices"]) <= 30
        assert all(0 <= index < plan.features for index in context["indices"])
