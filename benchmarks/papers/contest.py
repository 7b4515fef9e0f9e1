"""The contest of defaults: two learners with their defaults, and one setting of a peer, the same on all streams."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import KEEL
from benchmarks.papers.data import traffic
from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.bundled import BUNDLED
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.defaults import STREAMS as PAPERS
from benchmarks.papers.runs import Outcome, Run
from benchmarks.papers.summary import deviation
from benchmarks.papers.tuning import PEER
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

PEER_NAME, PEER_SETTING = "VW100", {"options": "--squarecb --gamma_scale 100", "costs": "0/1"}
"""Vowpal Wabbit's setting with the fewest mistakes on four of the papers' streams."""

_MOST_SEEDS, _MOST_LABELS = 3, 60
"""The peer's seeds outside the papers' streams, and the labels beyond which it takes over a minute per seed there."""


class Bout(NamedTuple):
    """The runs on one stream. A pair has one seed and adjacent runs, so that their speeds are comparable."""

    stream: str
    rounds: int
    pairs: list[tuple[Run, Run]]  # per seed: the new learner and the old one
    peers: list[Run]  # the peer on the first of these seeds, or on none

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [*(run for pair in self.pairs for run in pair), *self.peers]


def plan(stream: str, file: str | None, rounds: int, seeds: int, new: str, old: str) -> Bout:
    """Plan the runs of two algorithms and the peer on a stream."""

    def runs(algorithm: str, setting: dict[str, Any], n: int = seeds) -> list[Run]:
        return [Run(stream, file, algorithm, setting, rounds, seed) for seed in range(n)]

    slow = open_stream(stream, file).problem.n_labels > _MOST_LABELS
    peer_seeds = seeds if stream in PAPERS else 0 if slow else min(seeds, _MOST_SEEDS)
    return Bout(
        stream,
        rounds,
        list(zip(runs(new, {}), runs(old, {}), strict=True)),
        runs(PEER.algorithm, PEER_SETTING, peer_seeds),
    )


class Errors(NamedTuple):
    """Mistakes per round over all rounds and over the last quarter, for each seed."""

    overall: FloatArray  # (seeds,)
    late: FloatArray  # (seeds,)


class Result(NamedTuple):
    """The errors of a bout."""

    stream: str
    rounds: int
    new: Errors
    old: Errors
    peer: Errors | None
    speed: float  # rounds per second of the new learner over the old one's, median over seeds


def result(bout: Bout, load: Callable[[Run], Outcome]) -> Result:
    """Summarize a bout whose runs are finished; `load` returns the outcome of a run."""
    new, old = ([load(run) for run in runs] for runs in zip(*bout.pairs, strict=True))
    peer = _errors([load(run) for run in bout.peers]) if bout.peers else None
    speed = np.median([before.seconds / after.seconds for after, before in zip(new, old, strict=True)])
    return Result(bout.stream, bout.rounds, _errors(new), _errors(old), peer, float(speed))


def _errors(outcomes: Sequence[Outcome]) -> Errors:
    return Errors(np.array([one.error for one in outcomes]), np.array([one.late_error for one in outcomes]))


def ratios(results: Sequence[Result], against: str, part: str) -> FloatArray:
    """Return the new learner's mean error over another's, (streams,), with one mistake added to each.

    Args:
        results: the results, one per stream; those without the other's runs are left out.
        against: `old` or `peer`.
        part: `overall` or `late`.
    """
    return np.array([_ratio(one, against, part) for one in results if getattr(one, against) is not None])


def _ratio(one: Result, against: str, part: str) -> float:
    mistake = 1.0 / one.rounds if part == "overall" else 1.0 / max(1, one.rounds // 4)
    other = getattr(getattr(one, against), part)
    error = getattr(one.new, part)[: len(other)]
    return float((error.mean() + mistake) / (other.mean() + mistake))


def geometric_mean(values: FloatArray) -> float:
    """Return the geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))


def is_worse(one: Result, against: str, part: str) -> bool:
    """Check whether the new learner's mean error is larger by over one standard error of the paired difference."""
    if getattr(one, against) is None:
        return False
    errors: FloatArray = getattr(getattr(one, against), part)
    differences = getattr(one.new, part)[: len(errors)] - errors
    return bool(differences.mean() > standard_error(differences))


def standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean, 0 for a single value."""
    return deviation(values) / float(np.sqrt(len(values)))
