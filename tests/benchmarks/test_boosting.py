"""The page of boosting: one run of 32 weak learners gives the errors of fewer, and the tables have all kinds."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.runs import Outcome, Run, checkpoints
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from tests.learners.arrays import assert_close
from tests.learners.worlds import World, expected_mistakes

for _package in ("joblib", "matplotlib"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

boosting: Any = importlib.import_module("benchmarks.papers.boosting")
reduction: Any = importlib.import_module("benchmarks.papers.reduction")

ROUNDS = 40


def test_a_long_sequence_gives_the_errors_of_its_prefixes() -> None:
    """The error for N = 4 is the mean probability of a mistake of a learner with 4 weak learners."""
    settings = {"weak_learners": 32, "weak_learner": "cost-regression", "features_seed": 3}
    outcome = boosting.play(Run("groups", None, "adaboost-olm", settings, ROUNDS, 1))
    stream = open_stream("groups", None)
    (chunk,) = stream.chunks(ROUNDS, 1)
    world = World(chunk.contexts.values.reshape(ROUNDS, -1), chunk.labels, np.full(ROUNDS, 0.5))
    four = AdaBoostOlm(problem=stream.problem, weak_learners=4, weak_learner="cost-regression", features_seed=3)
    assert_close(outcome.errors[boosting.SIZES.index(4)], expected_mistakes(four, world) / ROUNDS, 1e-9)
    assert len(outcome.edges) == 32


def test_the_page_of_boosting_has_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream has a figure, and two tables with one row for each kind."""
    made = boosting.Outcome([0.5] * len(boosting.SIZES), [0.1] * 32, 0.2)
    monkeypatch.setattr(boosting, "_load", lambda *_: made)
    boosting.report([boosting.sweep("groups", None, ROUNDS, 2)], 2, tmp_path, tmp_path / "pages")
    page = (tmp_path / "pages" / "boosting.md").read_text()
    assert all(page.count(f"| {name} |") == 2 for name in boosting.KINDS)
    assert (tmp_path / "pages" / "boosting-groups.png").exists()


def test_the_page_of_the_reduction_has_every_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is a row, with two columns for each stream."""
    points = checkpoints(ROUNDS).tolist()
    monkeypatch.setattr(reduction, "load", lambda *_: Outcome(points, points, 1.0))
    reduction.report([reduction.table("groups", None, ROUNDS, 2)], 2, tmp_path, tmp_path)
    page = (tmp_path / "bandit-reduction.md").read_text()
    assert all(f"| {entry.name} | 1.0000 (0.0000) | 1.0000 (0.0000) |" in page for entry in reduction.ENTRIES)
