"""A change of all labels: how fast each learner recovers, compared with a fresh learner that starts at the change.

A run has two halves. In the second half, label k becomes label k + 1, and the last label becomes the first, so that
everything learned is wrong.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.data.chunks import CHUNK
from benchmarks.papers.data.streams import open_stream
from learners.base import FloatArray, IntArray
from learners.evaluation.simulation import simulate
from learners.registry import LEARNERS, RECOMMENDED

HALF = 30_000
"""Rounds before the change, and as many after it; at most `CHUNK`."""

WINDOW = 1_000
"""Rounds of the moving window in which an error is measured."""

TOLERANCE = 1.1
"""A learner has recovered once the error of a window is at most this factor times the error before the change."""


class Entrant(NamedTuple):
    """A learner with its hyperparameters, one curve of a figure."""

    name: str
    algorithm: str
    hyperparameters: dict[str, Any]
    starts_afresh: bool = False  # whether a fresh learner replaces it at the change


ORACLE = Entrant("oracle restart", RECOMMENDED.algorithm, {}, starts_afresh=True)
"""The recommended learner, restarted exactly at the change: the reference."""

ENTRANTS = (
    ORACLE,
    Entrant(RECOMMENDED.algorithm, RECOMMENDED.algorithm, {}),
    Entrant("fastcb, restart_risk 1e-9", "fastcb", {"restart_risk": 1e-9}),
    Entrant("squarecb", "squarecb", {}),
    Entrant("epsilon-greedy-ridge", "epsilon-greedy-ridge", {}),
)


class Trial(NamedTuple):
    """The parameters of a run."""

    entrant: Entrant
    stream: str
    file: str | None  # file of the data set
    half: int  # rounds before the change, and after it
    seed: int  # seed of the stream and of the draws
    changes: bool = True  # whether the labels change; otherwise both halves have the same labels


def play(trial: Trial) -> IntArray:
    """Play a run. Return the mistakes up to and including each round, starting with 0, (1 + 2 half,)."""
    entrant, stream, state = trial.entrant, open_stream(trial.stream, trial.file), None
    assert trial.half <= CHUNK
    learner = LEARNERS[entrant.algorithm](problem=stream.problem, **entrant.hyperparameters)
    rng, mistakes = np.random.default_rng([trial.seed, 777]), [np.zeros(1, dtype=np.int64)]
    for place in (0, 1):
        chunk = stream.chunk(trial.seed, place, trial.half)
        labels = (chunk.labels + place * trial.changes) % stream.problem.n_labels
        state = None if entrant.starts_afresh and trial.changes else state
        simulation = simulate(learner, chunk.contexts, labels, rng.random(trial.half), state)
        state = simulation.state
        mistakes.append(mistakes[-1][-1] + np.cumsum(simulation.mistakes))
    return np.concatenate(mistakes)


class Recovery(NamedTuple):
    """The errors of an entrant around the change, averaged over seeds."""

    before: float  # mistakes per round in the last window before the change
    rounds: int | None  # rounds from the change to the end of the first window with an error close to `before`
    after: float  # mistakes per round after the change
    last: float  # mistakes per round in the last window


def errors_in_windows(runs: Sequence[IntArray]) -> FloatArray:
    """Return the mistakes per round in each window, averaged over the runs; entry i is of the window after round i."""
    mean = np.mean(np.array(runs), axis=0)
    return np.asarray((mean[WINDOW:] - mean[:-WINDOW]) / WINDOW)


def recovery(runs: Sequence[IntArray]) -> Recovery:
    """Measure how an entrant recovers, given its cumulated mistakes, one array per seed."""
    errors, half = errors_in_windows(runs), len(runs[0]) // 2
    before = float(errors[half - WINDOW])
    close = np.nonzero(errors[half:] <= TOLERANCE * before)[0]
    after = float(np.mean([mistakes[-1] - mistakes[half] for mistakes in runs]) / half)
    return Recovery(before, int(close[0]) + WINDOW if len(close) else None, after, float(errors[-1]))
