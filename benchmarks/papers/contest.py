"""The contest of defaults: two learners with their defaults, and one setting of each peer, the same on all streams."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import KEEL
from benchmarks.papers.data import traffic
from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.bundled import BUNDLED
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.defaults import STREAMS as PAPERS
from benchmarks.papers.ridge_bound import ALGORITHM as RIDGE_BOUND
from benchmarks.papers.ridge_bound import MOST_FEATURES
from benchmarks.papers.runs import Outcome, Run
from benchmarks.papers.summary import deviation
from benchmarks.papers.vowpal_wabbit import ALGORITHM as VOWPAL_WABBIT
from learners.base import FloatArray

STREAMS = {**PAPERS, "kdd": 50_000, **dict.fromkeys(BATTERY, 30_000), "drift": 50_000}
"""Rounds on each stream: the streams of the papers, KDD Cup 1999, and one generated stream per difficulty."""

_DRIFTING = ("stationary", "rotating", "rotating-slow", "abrupt", "catalogue", "rare-clicks")

TRAFFIC = {
    **dict.fromkeys(traffic.TRAFFIC, 20_000),
    **dict.fromkeys(_DRIFTING, 50_000),
    **dict.fromkeys((name for name in traffic.TRAFFIC if name.endswith("1536")), 10_000),
    "labels-200": 10_000,
    **dict.fromkeys((*BUNDLED, *KEEL), 8_000),
    "routellm-words": 7_661,
    "routellm-vectors": 7_661,
    "paretobandit-words": 3_559,
    "paretobandit-vectors": 3_559,
}
"""Rounds on each stream of a service's traffic, of small tables, and of prompts routed to language models."""

VW_NAME, VW_SETTING = "VW100", {"options": "--squarecb --gamma_scale 100", "costs": "0/1"}
"""Vowpal Wabbit's setting with the fewest mistakes on four of the papers' streams."""

RIDGE_NAME, BLIND_NAME = "LinUCB", "no features"
"""The other peers: the ridge regression with an upper bound, and the new learner without features."""

MOST_LABELS = 60
"""The labels beyond which Vowpal Wabbit takes over a minute per seed outside the papers' streams."""

_MOST_SEEDS = 3  # of the peers, outside the papers' streams


class Bout(NamedTuple):
    """The runs on one stream. A pair has one seed and adjacent runs, so that their speeds are comparable."""

    stream: str
    rounds: int
    pairs: list[tuple[Run, Run]]  # per seed: the new learner and the old one
    peers: dict[str, list[Run]]  # by name, those who play here, on the first of these seeds

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for runs in (*self.pairs, *self.peers.values()) for run in runs]


def plan(stream: str, file: str | None, rounds: int, seeds: int, new: str, old: str) -> Bout:
    """Plan the runs of two algorithms and the peers on a stream."""

    def runs(algorithm: str, setting: dict[str, Any], n: int, features: bool = True) -> list[Run]:
        return [Run(stream, file, algorithm, setting, rounds, seed, features) for seed in range(n)]

    problem, few = open_stream(stream, file).problem, seeds if stream in PAPERS else min(seeds, _MOST_SEEDS)
    peers = {BLIND_NAME: runs(new, {}, few, features=False)}
    if problem.n_labels <= MOST_LABELS or stream in PAPERS:
        peers[VW_NAME] = runs(VOWPAL_WABBIT, VW_SETTING, few)
    if problem.n_features <= MOST_FEATURES:
        peers[RIDGE_NAME] = runs(RIDGE_BOUND, {}, few)
    return Bout(stream, rounds, list(zip(runs(new, {}, seeds), runs(old, {}, seeds), strict=True)), peers)


class Errors(NamedTuple):
    """The mean loss per round over all rounds and over the last quarter, for each seed."""

    overall: FloatArray  # (seeds,)
    late: FloatArray  # (seeds,)


class Result(NamedTuple):
    """The errors of a bout."""

    stream: str
    rounds: int
    new: Errors
    others: dict[str, Errors]  # by name: the old learner's algorithm, or a peer
    speed: float  # rounds per second of the new learner over the old one's, median over seeds


def result(bout: Bout, load: Callable[[Run], Outcome]) -> Result:
    """Summarize a bout whose runs are finished; `load` returns the outcome of a run."""
    new, old = ([load(run) for run in runs] for runs in zip(*bout.pairs, strict=True))
    peers = {name: _errors([load(run) for run in runs]) for name, runs in bout.peers.items()}
    speed = np.median([before.seconds / after.seconds for after, before in zip(new, old, strict=True)])
    others = {bout.pairs[0][1].algorithm: _errors(old), **peers}
    return Result(bout.stream, bout.rounds, _errors(new), others, float(speed))


def _errors(outcomes: Sequence[Outcome]) -> Errors:
    return Errors(np.array([one.error for one in outcomes]), np.array([one.late_error for one in outcomes]))


def ratios(results: Sequence[Result], against: str, part: str) -> FloatArray:
    """Return the new learner's mean error over another's, (streams,), with one mistake added to each.

    Args:
        results: the results, one per stream; those without the other's runs are left out.
        against: name of the other one.
        part: `overall` or `late`.
    """
    return np.array([_ratio(one, against, part) for one in results if against in one.others])


def _ratio(one: Result, against: str, part: str) -> float:
    mistake = 1.0 / one.rounds if part == "overall" else 1.0 / max(1, one.rounds // 4)
    other = getattr(one.others[against], part)
    error = getattr(one.new, part)[: len(other)]
    return float((error.mean() + mistake) / (other.mean() + mistake))


def geometric_mean(values: FloatArray) -> float:
    """Return the geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))


def is_worse(one: Result, against: str, part: str) -> bool:
    """Check whether the new learner's mean error is larger by over one standard error of the paired difference."""
    if against not in one.others:
        return False
    errors: FloatArray = getattr(one.others[against], part)
    differences = getattr(one.new, part)[: len(errors)] - errors
    return bool(differences.mean() > standard_error(differences))


def standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean, 0 for a single value."""
    return deviation(values) / float(np.sqrt(len(values)))
