"""The laws of estimates and verdicts: each verdict for a log whose story is known."""

import numpy as np
import pytest

from learners.base import Problem
from learners.registry import ALL_LEARNERS
from service.analytics.estimates import UNKNOWN, Subject, label_value, observed, uniform_value
from service.analytics.verdicts import LEAST_ROUNDS, verdict_of
from service.replicas.statistics import RoundStatistics, StatisticsAccumulator
from service.store.records.codecs import label_codec
from service.store.records.layout import FEEDBACK
from service.store.records.round_table import Table, row_dtype

LABELS = ("a", "b", "c")


def subject(*, has_contexts: bool = True, full: bool = False) -> Subject:
    settings = {"information": "full"} if full else {}
    learner = ALL_LEARNERS["gaptron"](problem=Problem(3, 2), **settings)
    return Subject(learner, LABELS, has_actions=False, has_contexts=has_contexts)


def story(distributions: np.ndarray, worth: np.ndarray, seed: int = 1) -> Table:
    rng, n = np.random.default_rng(seed), len(distributions)
    rows = np.zeros(n, row_dtype(label_codec(3), 0))
    labels = (rng.random((n, 1)) > distributions.cumsum(axis=1)[:, :-1]).sum(axis=1)
    rows["kind"], rows["output"] = FEEDBACK, labels
    rows["propensity"] = distributions[np.arange(n), labels]
    rows["reward"] = rng.random(n) < worth[np.arange(n), labels]
    rows["predicted_at"] = rows["feedback_at"] = 1.8e9
    return rows


def counted(*parts: Table, retired: tuple[int, ...] = ()) -> RoundStatistics:
    counting = StatisticsAccumulator(3, 3200.0)
    for rows in parts:
        counting.take(rows)
    counting.use(3, np.array([k not in retired for k in range(3)]))
    return counting.counts()


def rows(distribution: list[float], worth: list[float], n: int = 3000, seed: int = 1) -> Table:
    return story(np.tile(distribution, (n, 1)), np.tile(worth, (n, 1)), seed)


UNIFORM = [1 / 3, 1 / 3, 1 / 3]
SURE = [0.998, 0.001, 0.001]
FIXED = [0.9998, 0.0001, 0.0001]
TRIES = [0.97, 0.015, 0.015]
TIED, BETTER = [0.4, 0.4, 0.1], [0.2, 0.6, 0.2]
PLAIN = [0.6, 0.2, 0.2]
VERDICTS = {
    "few rounds": ("exploring", counted(rows(FIXED, PLAIN, LEAST_ROUNDS - 1))),
    "uniform draws": ("exploring", counted(rows(UNIFORM, PLAIN))),
    "a preference": ("leaning", counted(rows([0.8, 0.1, 0.1], PLAIN))),
    "one label, by evidence": ("converged", counted(rows(UNIFORM, PLAIN), rows(SURE, PLAIN))),
    "one label, by evidence, at last without exploration": (
        "converged",
        counted(rows(UNIFORM, PLAIN), rows(FIXED, PLAIN)),
    ),
    "one label, worse than another": ("collapsed", counted(rows(UNIFORM, BETTER), rows(TRIES, BETTER))),
    "one label, as good as another, still explored": (
        "leaning",
        counted(rows(UNIFORM, [0.4, 0.4, 0.1]), rows(SURE, [0.4, 0.4, 0.1])),
    ),
    "one label, never tried another": ("collapsed", counted(rows(FIXED, PLAIN))),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("has_contexts", [True, False])
def test_each_story_has_its_verdict(case: str, has_contexts: bool) -> None:
    expected, statistics = VERDICTS[case]
    verdict = verdict_of(subject(has_contexts=has_contexts), statistics)
    assert verdict.verdict == expected, verdict.reason
    assert verdict.reason.endswith(".")


def contextual(best: list[float], n: int = 4000) -> Table:
    half = np.arange(n)[:, None] % 2 == 0
    distribution = np.where(half, [0.99, 0.005, 0.005], [0.005, 0.99, 0.005])
    return story(distribution, np.where(half, best, best[::-1]))


def test_a_contextual_model_may_use_many_labels() -> None:
    good = counted(rows(UNIFORM, [0.45, 0.45, 0.1]), contextual([0.8, 0.1, 0.1]))
    assert verdict_of(subject(), good).verdict == "converged"


def test_certain_decisions_that_a_constant_label_beats_have_collapsed() -> None:
    worth = [0.2, 0.2, 0.8]
    bad = counted(rows(UNIFORM, worth), contextual([0.2, 0.2, 0.8]))
    found = verdict_of(subject(), bad)
    assert (found.verdict, "always 'c'" in found.reason) == ("collapsed", True)


def test_full_information_needs_no_exploration() -> None:
    statistics = counted(rows(FIXED, PLAIN))
    assert verdict_of(subject(full=True), statistics).verdict == "leaning"
    assert verdict_of(subject(full=False), statistics).verdict == "collapsed"


def test_a_retired_label_is_no_rival() -> None:
    parts = rows(UNIFORM, [0.5, 0.9, 0.1]), rows(SURE, [0.5, 0.9, 0.1])
    assert verdict_of(subject(), counted(*parts)).verdict == "collapsed"
    assert verdict_of(subject(), counted(*parts, retired=(1,))).verdict == "converged"


def test_values_are_those_of_the_policies() -> None:
    worth = np.array([0.5, 0.3, 0.1])
    hits, runs = 0, 60
    for seed in range(runs):
        sums = counted(rows([0.8, 0.15, 0.05], worth.tolist(), 1000, seed)).by_label
        found = [label_value(sums, k, has_contexts=True) for k in range(3)] + [uniform_value(sums)]
        hits += sum(each.low <= true <= each.high for each, true in zip(found, [*worth, worth.mean()], strict=True))
    assert hits / (4 * runs) > 0.93


def test_intervals_of_rewards() -> None:
    assert observed(0, 0.0, 0.0) == UNKNOWN
    bits, graded = observed(100, 30.0, 30.0), observed(100, 30.0, 12.0)
    assert (bits.low, bits.high) == pytest.approx((0.2189, 0.3958), abs=1e-4)
    assert graded.mean == bits.mean
    assert graded.high - graded.low > bits.high - bits.low
