"""Whether more weak learners are better: AdaBoost.OLM++ with 1 to 32 weak learners of each kind, on two streams."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.figures import Curves, draw_rates
from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.summary import Summary, markdown, summarize, with_deviation
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.boosting_regression import boosted
from learners.base import Contexts, FloatArray, IntArray, Rounds

SIZES = (1, 2, 4, 8, 16, 32)
"""N, the numbers of weak learners."""

KINDS = {
    "Perceptron, all features": "perceptron",
    "Perceptron, 8 features": "few-features",
    "FOLKLORE, 8 features": "folklore",
    "cost regression, 8 features": "cost-regression",
}
"""The kinds of weak learners, as the figures name them. The first is the default, and the only one in 0.1.0."""

STREAMS = {"pendigits": 5_000, "covertype": 5_000}
"""Rounds on each stream."""

_DIAGNOSED = 2_000  # rounds of the runs that measure edges
_MEMBERS = 8  # their weak learners


class Sweep(NamedTuple):
    """The runs on one stream."""

    stream: str
    file: str | None
    rounds: int
    runs: dict[tuple[str, int], list[Run]]  # by kind and N; one run per seed


def sweep(stream: str, file: str | None, rounds: int, seeds: int) -> Sweep:
    """Plan the runs on a stream. The seed of a run also chooses the features of its weak learners."""

    def run(kind: str, size: int, seed: int) -> Run:
        settings = {"weak_learners": size, "weak_learner": kind, "features_seed": seed}
        return Run(stream, file, "adaboost-olm", settings, rounds, seed)

    runs = {
        (name, size): [run(kind, size, seed) for seed in range(seeds)] for name, kind in KINDS.items() for size in SIZES
    }
    return Sweep(stream, file, rounds, runs)


def report(sweeps: Sequence[Sweep], seeds: int, folder: Path, pages: Path) -> None:
    """Write the page `boosting` with a figure and a table for each stream; all runs are finished."""
    body = []
    pages.mkdir(parents=True, exist_ok=True)
    for one in sweeps:
        results = {key: summarize([load(folder, run) for run in runs]) for key, runs in one.runs.items()}
        title = f"{one.stream}: {one.rounds:,} rounds, {seeds} seeds"
        figure = folder / f"boosting-{one.stream}"
        draw_rates(figure, title, _curves(results), "weak learners N")
        shutil.copy(figure.with_suffix(".png"), pages)
        body.append(f"## {title}\n\n![Error against weak learners]({figure.name}.png)\n\n{_table(results)}\n")
        body.append(_DIAGNOSIS + _edges_table(one) + "\n")
    write_page(pages, "boosting", "Boosting", _INTRODUCTION, f"boosting --seeds {seeds}", "\n".join(body))


_INTRODUCTION = (
    "Mistakes per round of `adaboost-olm` with N weak learners, mean (std) over seeds, which also choose the features. "
    "Full information."
)

_DIAGNOSIS = (
    f"One run of {_DIAGNOSED:,} rounds with {_MEMBERS} weak learners, second half. The edge of a weak learner is "
    "Σ (1[l = y] - σ_l) / Σ (1 - σ_y), with its vote l and the probabilities σ of the members before it; only an edge "
    "above 0 lowers the loss.\n\n"
)


def _curves(results: dict[tuple[str, int], Summary]) -> list[Curves]:
    return [Curves(name, False, [(float(size), results[name, size]) for size in SIZES]) for name in KINDS]


def _table(results: dict[tuple[str, int], Summary]) -> str:
    header = ["weak learner", *(f"N = {size}" for size in SIZES)]
    return markdown(header, [[name, *(with_deviation(results[name, size].error) for size in SIZES)] for name in KINDS])


def _edges_table(one: Sweep) -> str:
    header = ["weak learner", "edge of the first", f"mean edge of the other {_MEMBERS - 1}", "votes as the first"]
    rows = []
    for name, kind in KINDS.items():
        edges, repeated = diagnose(one.stream, one.file, {"weak_learner": kind, "weak_learners": _MEMBERS})
        rows.append([name, f"{edges[0]:.3f}", f"{edges[1:].mean():.3f}", f"{repeated:.0%}"])
    return markdown(header, rows)


def diagnose(stream: str, file: str | None, settings: dict[str, Any]) -> tuple[FloatArray, float]:
    """Return each member's edge (N,) and the share of later members' votes that equal the first member's vote."""
    source = open_stream(stream, file)
    learner = AdaBoostOlm(problem=source.problem, **settings)
    (chunk,) = source.chunks(_DIAGNOSED, 0)
    state, half = learner.init(), _DIAGNOSED // 2
    votes = np.empty((half, learner.weak_learners), dtype=np.int64)
    gains, slack = np.zeros(learner.weak_learners), np.zeros(learner.weak_learners)
    for t, y in enumerate(chunk.labels):
        context = chunk.contexts.rows(t, t + 1)
        evidence = learner.decide_unchecked(state, context).evidence
        state = learner.fold_unchecked(state, _taught(context, chunk.labels[t : t + 1], evidence))
        if t >= half:
            votes[t - half] = evidence.reshape(-1, 3)[:, 0]
            _add_edges(evidence.reshape(-1, 3), int(y), source.problem.n_labels, gains, slack)
    return gains / slack, float((votes[:, 1:] == votes[:, :1]).mean())


def _taught(context: Contexts, truth: IntArray, evidence: FloatArray) -> Rounds:
    return Rounds(context, truth, np.ones(1), np.ones(1, dtype=np.bool_), truth, evidence, np.zeros(1))


def _add_edges(evidence: FloatArray, y: int, n_labels: int, gains: FloatArray, slack: FloatArray) -> None:
    """Add a round's numerators and denominators of the edges."""
    s = np.zeros(n_labels)
    for i, (vote, *zeta) in enumerate(evidence):
        sigma = softmax(s)
        gains[i] += float(int(vote) == y) - sigma[int(vote)]
        slack[i] += 1.0 - sigma[y]
        s = boosted(s, int(vote), np.array(zeta))
