"""The Open Bandit sample: the policy that one log evaluates is the one that made the other log.

It needs `random_men.csv.xz` and `bts_men.csv.xz`, in the folder that WAGER_OPEN_BANDIT names. The uniform log has the
value of Bernoulli Thompson sampling, whose propensities depend on item and position only, and the other way round.
"""

import csv
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from learners.base import NO_LABEL, Contexts, every_label
from learners.evaluation.off_policy.estimates import Evaluation, evaluation_of
from learners.evaluation.off_policy.logged import LoggedRounds, check_logged
from learners.evaluation.off_policy.policies import GivenChances, Served, UniformChoice
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated, sums_of

_ITEMS = 34
_FOLDER = Path(os.environ.get("WAGER_OPEN_BANDIT", "no-such-folder"))


def _read(name: str) -> tuple[LoggedRounds, np.ndarray]:
    with lzma.open(_FOLDER / f"{name}_men.csv.xz", "rt") as lines:
        rows = [(r["item_id"], r["propensity_score"], r["click"], r["position"]) for r in csv.DictReader(lines)]
    items, propensities, clicks, positions = np.array(rows, np.float64).T
    n = len(rows)
    nothing = Contexts.sparse(np.zeros(n, np.int64), np.empty(0, np.int64), [])
    counts, nobody, truths = np.full(n, _ITEMS), np.zeros(n, np.bool_), np.full(n, NO_LABEL)
    numbers, labels = np.arange(1, n + 1), items.astype(np.int64)
    log = LoggedRounds(numbers, labels, propensities, clicks, every_label(n), counts, nobody, truths, nothing)
    check_logged(log, _ITEMS)
    return log, positions


def _mean_propensities(log: LoggedRounds, positions: np.ndarray) -> np.ndarray:
    """Return the mean propensity of each item at each position in a log, (3, 34), as a distribution."""
    sums = np.full((3, _ITEMS), 1e-12)
    counts = np.full((3, _ITEMS), 1e-12)
    places = (positions.astype(np.int64) - 1, log.labels)
    np.add.at(sums, places, log.propensities)
    np.add.at(counts, places, 1.0)
    means: np.ndarray = sums / counts
    return np.asarray(means / means.sum(axis=1, keepdims=True))


def _own(log: LoggedRounds) -> Evaluation:
    settings = Settings(1, 1000, 100.0)
    return evaluation_of(sums_of(log, [Evaluated(Served())], settings)[0], settings)


@pytest.mark.skipif(not _FOLDER.exists(), reason="set WAGER_OPEN_BANDIT to the folder of the Open Bandit sample")
def test_each_log_values_the_policy_of_the_other() -> None:
    uniform, positions = _read("random")
    thompson, others = _read("bts")
    settings = Settings(1, 1000, 100.0)
    table = _mean_propensities(thompson, others)
    chances = table[positions.astype(np.int64) - 1, uniform.labels]
    forth = evaluation_of(sums_of(uniform, [Evaluated(GivenChances(chances))], settings)[0], settings)
    back = evaluation_of(sums_of(thompson, [Evaluated(UniformChoice())], settings)[0], settings)
    for found, other in ((forth, thompson), (back, uniform)):
        mean = float(other.rewards.mean())
        own = _own(other).estimates[2].interval
        assert own is not None
        for each in found.estimates:
            if each.estimator in ("ips", "snips"):
                assert each.interval is not None
                assert each.interval.low <= own.high, each
                assert each.interval.high >= own.low, each
        assert found.conservative.low <= mean <= found.conservative.high
