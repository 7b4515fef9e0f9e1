"""Whether more weak learners are better: AdaBoost.OLM++ with 1 to 32 weak learners of each kind, on two streams.

The first N members of a sequence do not depend on the others. So one run of 32 weak learners gives the mistakes of all
smaller N, each as the probability of a mistake under the mixture of the first N members' answers.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np

from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.figures import draw_sizes
from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.summary import markdown, with_deviation
from benchmarks.papers.versions import name_of
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.boosting_regression import boosted
from learners.base import Contexts, FloatArray, IntArray, Rounds
from learners.mathematics.exploration import leader, softmax

SIZES = (1, 2, 4, 8, 16, 32)
"""N, the numbers of weak learners."""

KINDS = {
    "Perceptron, all features": "perceptron",
    "Perceptron, 8 features": "few-features",
    "FOLKLORE, 8 features": "folklore",
    "cost regression, 8 features": "cost-regression",
}
"""The kinds of weak learners, as the figures name them. The first is the default."""

STREAMS = {"pendigits": 4_000, "covertype": 3_000}
"""Rounds on each stream."""


class Outcome(NamedTuple):
    """The outcome of one run of 32 weak learners."""

    errors: list[float]  # expected mistakes per round of the first N members, for each N of SIZES
    edges: list[float]  # of each member
    repeated: float  # the share of later members' votes that equal the first member's


class Sweep(NamedTuple):
    """The runs on one stream, by kind; one run per seed."""

    stream: str
    rounds: int
    runs: dict[str, list[Run]]


def sweep(stream: str, file: str | None, rounds: int, seeds: int) -> Sweep:
    """Plan the runs on a stream. The seed of a run also chooses the features of its weak learners."""

    def run(kind: str, seed: int) -> Run:
        settings = {"weak_learners": SIZES[-1], "weak_learner": kind, "features_seed": seed}
        return Run(stream, file, "adaboost-olm", settings, rounds, seed)

    return Sweep(stream, rounds, {name: [run(kind, seed) for seed in range(seeds)] for name, kind in KINDS.items()})


def complete(sweeps: Sequence[Sweep], folder: Path, jobs: int) -> int:
    """Play the runs that are not finished yet, and store their outcomes. Return their number."""
    pending = [run for one in sweeps for runs in one.runs.values() for run in runs if not _path(folder, run).exists()]
    joblib.Parallel(n_jobs=jobs, batch_size=1)(joblib.delayed(_play_and_keep)(folder, run) for run in pending)
    return len(pending)


def report(sweeps: Sequence[Sweep], seeds: int, folder: Path, pages: Path) -> None:
    """Write the page `boosting` with a figure and two tables for each stream; all runs are finished."""
    body = []
    pages.mkdir(parents=True, exist_ok=True)
    for one in sweeps:
        outcomes = {name: [_load(folder, run) for run in runs] for name, runs in one.runs.items()}
        errors = {name: np.array([outcome.errors for outcome in of]) for name, of in outcomes.items()}
        title, figure = f"{one.stream}: {one.rounds:,} rounds, {seeds} seeds", folder / f"boosting-{one.stream}"
        draw_sizes(figure, title, "weak learners N", SIZES, errors)
        shutil.copy(figure.with_suffix(".png"), pages)
        body.append(f"## {title}\n\n![Error against weak learners]({figure.name}.png)\n\n{_errors_table(errors)}")
        body.append(_edges_table(outcomes))
    write_page(pages, "boosting", "Boosting", _INTRODUCTION, f"boosting --seeds {seeds}", "\n".join(body))


_INTRODUCTION = (
    "Mistakes per round of `adaboost-olm` with N weak learners, mean (std) over seeds, which also choose the features. "
    "Full information. The edge of a weak learner is Σ (1[l = y] - σ_l) / Σ (1 - σ_y) in the second half of a run, "
    "with its vote l and the probabilities σ of the members before it. Only an edge above 0 lowers the loss. The last "
    "column is the share of votes of members 2 to 32 that repeat the vote of member 1.\n\n"
    "Perceptrons of all features do not boost: they mostly repeat the first vote, so their edges are too small to pay "
    "for what BoostReg loses while it learns their weight. Random features make the votes differ. Votes for the "
    "cheapest label under the costs, by regression of the costs or FOLKLORE, have larger edges. Two members mostly "
    "answer like the first alone, because the second vote changes the argmax only if its weight is larger."
)


def _errors_table(errors: dict[str, FloatArray]) -> str:
    header = ["weak learner", *(f"N = {size}" for size in SIZES)]
    rows = [[name, *(with_deviation(of[:, i]) for i in range(len(SIZES)))] for name, of in errors.items()]
    return markdown(header, rows)


def _edges_table(outcomes: dict[str, list[Outcome]]) -> str:
    header = ["weak learner", "edge of member 1", "mean edge of 2 to 8", "mean edge of 9 to 32", "repeated votes"]
    rows = []
    for name, of in outcomes.items():
        edges = np.array([outcome.edges for outcome in of]).mean(axis=0)
        parts = edges[0], edges[1:8].mean(), edges[8:].mean()
        repeated = np.mean([outcome.repeated for outcome in of])
        rows.append([name, *(f"{part:.3f}" for part in parts), f"{repeated:.0%}"])
    return markdown(header, rows)


# --- one run


def _path(folder: Path, run: Run) -> Path:
    return folder / "boosting" / name_of(run)


def _load(folder: Path, run: Run) -> Outcome:
    return Outcome(**json.loads(_path(folder, run).read_text()))


def _play_and_keep(folder: Path, run: Run) -> None:
    path = _path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(play(run)._asdict()))


def play(run: Run) -> Outcome:
    """Play a run with immediate feedback."""
    stream = open_stream(run.stream, run.file)
    learner = AdaBoostOlm(problem=stream.problem, **run.hyperparameters)
    state, tally = learner.init(), _Tally(learner.weak_learners, stream.problem.n_labels, run.rounds // 2)
    for chunk in stream.chunks(run.rounds, run.seed):
        for t in range(chunk.contexts.n):
            context, truth = chunk.contexts.rows(t, t + 1), chunk.labels[t : t + 1]
            evidence = learner.decide_unchecked(state, context).evidence
            tally.add(evidence.reshape(-1, 3), int(truth[0]))
            state = learner.fold_unchecked(state, _taught(context, truth, evidence))
    return tally.outcome()


def _taught(context: Contexts, truth: IntArray, evidence: FloatArray) -> Rounds:
    return Rounds.of_bits(context, truth, np.ones(1), np.ones(1, dtype=np.bool_), truth, evidence, np.zeros(1))


class _Tally:
    """Sums over the rounds of a run."""

    def __init__(self, members: int, n_labels: int, start: int) -> None:
        self._n_labels = n_labels
        self._start = start  # the first round that counts for edges and votes
        self._rounds = 0
        self._mistakes = np.zeros(members)
        self._expected = np.zeros(len(SIZES))
        self._gains, self._slack = np.zeros(members), np.zeros(members)
        self._repeated = 0.0

    def add(self, evidence: FloatArray, y: int) -> None:
        """Add a round: each member's vote and logits ζ, as evidence (N, 3), and the true label."""
        wrong, late = np.empty(len(evidence)), self._rounds >= self._start
        s, sigma = np.zeros((2, self._n_labels))
        for i, (vote, *zeta) in enumerate(evidence):
            if late:
                softmax(s, sigma)
                self._gains[i] += float(int(vote) == y) - sigma[int(vote)]
                self._slack[i] += 1.0 - sigma[y]
            s = boosted(s, int(vote), np.array(zeta))
            wrong[i] = float(leader(s) != y)
        for place, size in enumerate(SIZES):
            weights = np.exp(self._mistakes[:size].min() - self._mistakes[:size])
            self._expected[place] += weights @ wrong[:size] / weights.sum()
        self._mistakes += wrong
        self._repeated += float((evidence[1:, 0] == evidence[0, 0]).mean()) * late
        self._rounds += 1

    def outcome(self) -> Outcome:
        """Return the means over the rounds."""
        errors, edges = self._expected / self._rounds, self._gains / self._slack
        return Outcome(errors.tolist(), edges.tolist(), self._repeated / (self._rounds - self._start))
