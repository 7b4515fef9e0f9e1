"""One run of a comparison: a learner on labelled examples, in an order and with draws that a seed determines."""

import json
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from learners.base import Contexts, IntArray
from learners.estimators.candidates import Candidate
from learners.estimators.inputs import take
from learners.estimators.setup import set_up
from learners.evaluation.comparison import Played, played
from learners.evaluation.simulation import simulate


def stream(*seeds: int) -> np.random.Generator:
    """Return a generator for seeds below 2³²; different sequences of the same length yield independent numbers."""
    entropy: Sequence[int] = seeds
    return np.random.default_rng(entropy)


Stage = Literal["selection", "measurement"]
_STREAMS = {"selection": 1, "measurement": 0}
_WARM_UP = 32  # rounds played first, to load or compile the kernels


class Examples(NamedTuple):
    """Labelled examples."""

    contexts: Contexts  # n contexts, before preparation
    labels: IntArray  # (n,), 0 … K-1
    n_features: int
    classes: tuple[str | int | bool | float, ...]  # the K labels

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(self.labels)


class Run(NamedTuple):
    """The parameters of a run; they and the examples determine its mistakes."""

    candidate: Candidate
    stage: Stage  # runs that select settings and runs that measure them have different orders and draws
    seed: int
    rounds: int
    random_state: int
    in_order: bool = False  # whether the examples are played in their own order; the seed then decides the draws alone

    @property
    def key(self) -> str:
        """A string that differs between any two runs."""
        return json.dumps([self.candidate.choice, *self[1:]], default=str)


def play(run: Run, examples: Examples, clock: Callable[[], float]) -> Played:
    """Play a run; each example occurs once before any occurs twice. Raises `ValueError` if the learner does not fit."""
    seeds = (run.random_state, _STREAMS[run.stage], run.seed)
    order = _own_order(examples.n, run.rounds) if run.in_order else _order(examples.n, run.rounds, seeds)
    uniforms = stream(*seeds, 1).random(run.rounds)
    setup = set_up(run.candidate.choice, len(examples.classes), examples.n_features)
    contexts, truths = setup.prepared(take(examples.contexts, order)), examples.labels[order]
    few, began = min(_WARM_UP, run.rounds), clock()
    simulate(setup.learner, contexts.rows(0, few), truths[:few], uniforms[:few])
    started = clock()
    simulation = simulate(setup.learner, contexts, truths, uniforms)
    return played(simulation.mistakes, clock() - started, started - began)


def _order(n: int, rounds: int, seeds: tuple[int, ...]) -> IntArray:
    """Return the example of each round, (rounds,): permutations of all examples, one after the other."""
    rng = stream(*seeds, 0)
    passes = [rng.permutation(n) for _ in range(-(-rounds // n))]
    return np.concatenate(passes)[:rounds].astype(np.int64)


def _own_order(n: int, rounds: int) -> IntArray:
    return np.arange(rounds, dtype=np.int64) % n
