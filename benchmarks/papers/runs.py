"""One run: a learner with its hyperparameters on a stream with a seed, and its outcome.

A run is a small value that determines everything, so any process on any machine can play it.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.papers.data.chunks import Chunk, Stream, without_features
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.ridge_bound import ALGORITHM as RIDGE_BOUND
from benchmarks.papers.ridge_bound import RidgeBound
from benchmarks.papers.vowpal_wabbit import ALGORITHM as VOWPAL_WABBIT
from benchmarks.papers.vowpal_wabbit import VowpalWabbit
from learners.base import FloatArray, IntArray
from learners.evaluation.simulation import simulate
from learners.registry import LEARNERS

_WARM_UP = 32  # rounds before the clock starts, which compile the kernels
_CHECKPOINTS = 200


class Run(NamedTuple):
    """The parameters of a run."""

    stream: str
    file: str | None  # file of the data set
    algorithm: str
    hyperparameters: dict[str, Any]
    rounds: int
    seed: int  # seed of the stream and of the draws
    features: bool = True  # whether players see the contexts, or a constant in their place


class Outcome(NamedTuple):
    """The losses up to each checkpoint, and the playing time. The loss of a round is 1 - reward: 1 for a mistake."""

    checkpoints: list[int]  # numbers of rounds, about evenly spaced on a logarithmic scale; the last is T
    losses: list[float]  # sum of the losses up to and including each checkpoint
    seconds: float  # playing time on one core, without the generation of the stream

    @property
    def rounds(self) -> int:
        """The number of rounds, T."""
        return self.checkpoints[-1]

    @property
    def error(self) -> float:
        """The mean loss per round."""
        return self.losses[-1] / self.rounds

    @property
    def late_error(self) -> float:
        """The mean loss per round over the last quarter of the rounds."""
        start = three_quarters(self.rounds)
        before = self.losses[self.checkpoints.index(start)]
        return (self.losses[-1] - before) / (self.rounds - start)


class Player(Protocol):
    """A learner of the project, or one of `PEERS`."""

    def play(self, chunk: Chunk, uniforms: FloatArray) -> FloatArray:
        """Play the rounds of the next chunk. Return their losses, (n,)."""


class _LearnerPlayer:
    def __init__(self, run: Run, stream: Stream) -> None:
        self._learner = LEARNERS[run.algorithm](problem=stream.problem, **run.hyperparameters)
        self._state: Any = None

    def play(self, chunk: Chunk, uniforms: FloatArray) -> FloatArray:
        simulation = simulate(
            self._learner, chunk.contexts, chunk.labels, uniforms, self._state, chunk.right, rewards=chunk.rewards
        )
        self._state = simulation.state
        if chunk.rewards is None:
            return simulation.mistakes.astype(np.float64)
        return 1.0 - chunk.rewards[np.arange(len(uniforms)), simulation.labels]


PEERS: dict[str, Callable[..., Player]] = {VOWPAL_WABBIT: VowpalWabbit, RIDGE_BOUND: RidgeBound}
"""Players that are not learners of the project, by algorithm. They take the problem and the hyperparameters."""


def three_quarters(rounds: int) -> int:
    """Return the number of rounds before the last quarter."""
    return rounds - max(1, rounds // 4)


def checkpoints(rounds: int) -> IntArray:
    """Return about 200 logarithmically spaced numbers of rounds from 1 to T, with the start of the last quarter."""
    spaced = np.unique(np.geomspace(1, rounds, _CHECKPOINTS).round().astype(np.int64))
    return np.union1d(spaced, [three_quarters(rounds), rounds])


def play(run: Run) -> Outcome:
    """Play a run. The same run has the same losses on every machine."""
    stream = open_stream(run.stream, run.file)
    if not run.features:
        stream = without_features(stream)
    _player(run, stream).play(*next(_inputs(run._replace(rounds=_WARM_UP), stream)))
    player, losses, seconds = _player(run, stream), [np.zeros(1)], 0.0
    for chunk, uniforms in _inputs(run, stream):
        started = time.perf_counter()
        lost = player.play(chunk, uniforms)
        seconds += time.perf_counter() - started
        losses.append(losses[-1][-1] + np.cumsum(lost))
    points = checkpoints(run.rounds)
    return Outcome(points.tolist(), np.concatenate(losses)[points].tolist(), seconds)


def _player(run: Run, stream: Stream) -> Player:
    if run.algorithm in PEERS:
        return PEERS[run.algorithm](stream.problem, **run.hyperparameters)
    return _LearnerPlayer(run, stream)


def _inputs(run: Run, stream: Stream) -> Iterator[tuple[Chunk, FloatArray]]:
    """Return the chunks with the uniform numbers that draw the labels."""
    rng = np.random.default_rng([run.seed, 777])
    return ((chunk, rng.random(chunk.contexts.n)) for chunk in stream.chunks(run.rounds, run.seed))
