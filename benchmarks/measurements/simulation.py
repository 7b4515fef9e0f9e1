"""Rounds per second of a simulation, compared with Vowpal Wabbit on the same stream, and the bytes of a state.

Both predict, draw and learn in every round, in one thread. Vowpal Wabbit runs through its Python module, on examples
that are parsed before the clock starts.

Two learners are also compared with the arithmetic of their rounds alone: the products of weights and contexts and the
updates of weights, without checks, distributions, draws and outcomes. No simulation of them can be faster.
"""

import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from benchmarks.measurements.fold import best_seconds
from benchmarks.papers.data.synthetic import N_CLASSES, N_WORDS, documents
from benchmarks.report import Row, at_most, seen
from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.base import AnyLearner, Contexts, FloatArray, IntArray, Problem
from learners.evaluation.simulation import simulate
from learners.kernels import row
from learners.layouts import state_bytes
from learners.mathematics.linear_algebra import add_to_label, score

_SPEEDS_WANTED = {"banditron": 1_200_000, "fastcb": 400_000}
_SPEED_WANTED = 500_000  # rounds per second, of the other learners
_PEER = "vowpalwabbit"
_SYNSEP = Problem(N_CLASSES, N_WORDS)


class Stream(NamedTuple):
    """Labelled contexts, and the uniform numbers that draw the answers."""

    contexts: Contexts
    labels: IntArray
    uniforms: FloatArray


def synsep(n: int, seed: int) -> Stream:
    """Return SynSep on the unit sphere: 9 classes of documents over 400 words."""
    contexts, labels = documents(n, seed, 0, 0.0)
    lengths = np.diff(contexts.starts)
    unit = contexts._replace(values=np.repeat(1.0 / np.sqrt(lengths), lengths))
    return Stream(unit, labels, np.random.default_rng([seed, 3]).random(n))


def peer_player(stream: Stream, n_labels: int) -> Callable[[], None] | None:
    """Return a function that plays the stream with `--cb_explore` at its defaults, or None without Vowpal Wabbit."""
    if importlib.util.find_spec(_PEER) is None:
        return None
    workspace = importlib.import_module(_PEER).Workspace(f"--cb_explore {n_labels} --quiet")
    examples = [_parsed(workspace, stream.contexts, t) for t in range(stream.contexts.n)]
    truths, uniforms = stream.labels.tolist(), stream.uniforms.tolist()

    def play() -> None:
        for example, truth, uniform in zip(examples, truths, uniforms, strict=True):
            distribution = workspace.predict(example)
            label, cumulated = 0, distribution[0]
            while cumulated <= uniform and label < n_labels - 1:
                label += 1
                cumulated += distribution[label]
            example.set_label_string(f"{label + 1}:{int(label != truth)}:{distribution[label]}")
            workspace.learn(example)

    return play


def _parsed(workspace: Any, contexts: Contexts, t: int) -> Any:
    entries = slice(contexts.starts[t], contexts.starts[t + 1])
    pairs = zip(contexts.indices[entries].tolist(), contexts.values[entries].tolist(), strict=True)
    example = workspace.parse("| " + " ".join(f"w{i}:{x!r}" for i, x in pairs))
    example.set_test_only(False)  # parsed without a label, it would never be learned from
    return example


def simulation_row(learner: AnyLearner, stream: Stream, peer_rate: float | None) -> Row:
    """Measure a learner that plays the stream repeatedly, without a reset."""
    state = simulate(learner, *stream).state  # compiles the kernels
    rate = stream.contexts.n / best_seconds(lambda: simulate(learner, *stream, state))
    what = f"simulate {learner.algorithm}, K = 9, d = 400, {len(stream.contexts.values) / stream.contexts.n:.0f} words"
    peer = f"{_PEER} {peer_rate:,.0f} rounds/s" if peer_rate else f"SKIPPED: {_PEER} is not installed"
    ratio = rate / peer_rate if peer_rate else math.nan
    wanted = _SPEEDS_WANTED.get(learner.algorithm, _SPEED_WANTED)
    return Row(what, f"{rate:,.0f} rounds/s", peer, ratio, f"≥ {wanted:,}/s", rate >= wanted)


@numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def _banditron_floor(contexts: Contexts, labels: IntArray, weights: FloatArray) -> None:
    s = np.empty(weights.shape[1])
    for t in range(len(labels)):
        indices, values = row(contexts, t)
        s[:] = 0.0
        score(weights, indices, values, s)
        add_to_label(weights, labels[t], 1.0, indices, values)
        add_to_label(weights, (labels[t] + 1) % len(s), -s[0], indices, values)


@numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def _fastcb_floor(contexts: Contexts, labels: IntArray, weights: FloatArray, information: FloatArray) -> None:
    """Score one model to decide and both to learn; update a column of one and all of the other with own step sizes."""
    s, K = np.empty(weights.shape[1]), weights.shape[1]
    for t in range(len(labels)):
        indices, values = row(contexts, t)
        for _ in range(2):
            s[:] = 1e-3
            score(weights, indices, values, s)
        for first, last in ((labels[t], labels[t] + 1), (0, K)):
            for position in range(len(values)):
                i, x = indices[position], values[position]
                for k in range(first, last):
                    g = s[k] * x
                    information[i, k] += g * g
                    weights[i, k] -= g / (20.0 + information[i, k])


def floor_row(learner: AnyLearner, stream: Stream, floor: Callable[..., None], arrays: int) -> Row:
    """Compare a learner with the arithmetic of its rounds on `arrays` arrays as large as its weights."""
    weights = [np.zeros((_SYNSEP.n_features, _SYNSEP.n_labels)) for _ in range(arrays)]
    floor(stream.contexts, stream.labels, *weights)
    state = simulate(learner, *stream).state
    seconds, least = (
        best_seconds(work)
        for work in (
            lambda: simulate(learner, *stream, state),
            lambda: floor(stream.contexts, stream.labels, *weights),
        )
    )
    rate, most = (f"{stream.contexts.n / each:,.0f} rounds/s" for each in (seconds, least))
    return seen(f"simulate {learner.algorithm}, vs. its products and updates", rate, most, least / seconds)


def memory_row(learner: AnyLearner, numbers: int, formula: str) -> Row:
    """Compare the bytes of a state with a floor: the numbers that the algorithm must keep."""
    what = f"state {learner.algorithm}, K·d = {learner.problem.n_labels * learner.problem.n_features:,}, {formula}"
    return at_most(what, state_bytes(learner), 8.0 * numbers, "bytes", 1.01)


def rows(n: int = 20_000) -> list[Row]:
    """Return the table of simulations."""
    stream, n_weights = synsep(n, seed=1), _SYNSEP.n_labels * _SYNSEP.n_features
    play = peer_player(stream, _SYNSEP.n_labels)
    peer_rate = n / best_seconds(play, repeats=3) if play else None
    learners = [cls(problem=_SYNSEP) for cls in (Gaptron, SobaDiagonal, Banditron, PNewtron, FastCb)]
    return [
        *(simulation_row(learner, stream, peer_rate) for learner in learners),
        floor_row(learners[2], stream, _banditron_floor, 1),
        floor_row(learners[4], stream, _fastcb_floor, 2),
        memory_row(learners[0], n_weights + _SYNSEP.n_features, "(K + 1)·d"),
        memory_row(learners[1], 2 * n_weights, "2·K·d"),
        memory_row(learners[2], n_weights, "K·d"),
        memory_row(learners[3], 2 * n_weights, "2·K·d"),
        memory_row(Soba(problem=_SYNSEP), n_weights * (n_weights + 1) // 2 + n_weights, "(K·d)²/2"),
    ]
