"""The change of all labels: what changes, when a learner has recovered, and the page."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.papers.drift import ENTRANTS, ORACLE, WINDOW, Entrant, Recovery, Trial, play, recovery
from learners.base import IntArray

for _package in ("joblib", "matplotlib", "vowpalwabbit"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

cli: Any = importlib.import_module("benchmarks.papers.cli")
drift_report: Any = importlib.import_module("benchmarks.papers.drift_report")

HALF = 2_000
LEARNER = ENTRANTS[1]


def mistakes_of(entrant: Entrant, changes: bool = True) -> IntArray:
    """Return the cumulated mistakes of a short run on SynSep, without noise."""
    return play(Trial(entrant, "synsep", None, HALF, 3, changes))


def some_run(before: float, hard_rounds: int) -> IntArray:
    """Return cumulated mistakes: evenly `before` per round, except in the first rounds after the change, all wrong."""
    wrong = np.diff(np.floor(before * np.arange(2 * 3 * WINDOW + 1) + 1e-9)).astype(np.int64)
    wrong[3 * WINDOW : 3 * WINDOW + hard_rounds] = 1
    return np.concatenate([[0], np.cumsum(wrong)])


def test_only_the_second_half_changes() -> None:
    """The change costs a learner nothing before it, and makes almost every answer wrong at first."""
    changed, unchanged = mistakes_of(LEARNER), mistakes_of(LEARNER, changes=False)
    assert (changed[: HALF + 1] == unchanged[: HALF + 1]).all()
    assert changed[HALF + 50] - changed[HALF] > 40
    assert unchanged[HALF + 50] - unchanged[HALF] < 10


def test_the_oracle_starts_afresh_at_the_change_only() -> None:
    """The oracle equals its learner up to the change, then has about a fresh learner's mistakes."""
    oracle, learner = mistakes_of(ORACLE), mistakes_of(LEARNER)
    assert (oracle[: HALF + 1] == learner[: HALF + 1]).all()
    first, second = oracle[HALF], oracle[-1] - oracle[HALF]
    assert first / 2 < second < first * 2 < (learner[-1] - learner[HALF]) * 2
    assert (mistakes_of(ORACLE, changes=False) == mistakes_of(LEARNER, changes=False)).all()


@pytest.mark.parametrize("hard_rounds", [0, 1, 400, WINDOW, 2 * WINDOW])
def test_recovery_ends_with_the_first_good_window(hard_rounds: int) -> None:
    """A window of 100 mistakes may have ten more: eleven hard rounds, of which one is a mistake anyway."""
    measured = recovery([some_run(0.1, hard_rounds)] * 2)
    rounds = WINDOW + max(0, hard_rounds - 11)
    assert measured.before == pytest.approx(0.1)
    assert measured.rounds == pytest.approx(rounds, abs=2)
    assert measured.last == pytest.approx(0.1)
    assert measured.after == pytest.approx(0.1 + 0.9 * hard_rounds / (3 * WINDOW), abs=1e-3)


def test_a_learner_that_stays_worse_has_not_recovered() -> None:
    """The rounds are None if no window after the change is good, whatever the windows across the change are."""
    measured = recovery([some_run(0.1, 3 * WINDOW)])
    assert measured == Recovery(measured.before, None, 1.0, 1.0)
    assert measured.before == pytest.approx(0.1)


def run(*arguments: str, code: int = 0) -> str:
    """Run a command, which must end with this code, and return its output."""
    result = CliRunner().invoke(cli.app, ["drift", "--jobs", "1", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_the_page_has_every_entrant_and_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial writes one table per stream, the costs, the survey, and the figure, to the folder of its output."""
    monkeypatch.setattr(drift_report, "SURVEYED", "synnonsep")
    monkeypatch.setattr(drift_report, "TABLE", [row for row in drift_report.TABLE if row.algorithm == "uniform"])
    monkeypatch.setattr(drift_report, "ENTRANTS", ENTRANTS[:3])
    run("--streams", "synnonsep, pendigits", "--rounds", "2000", "--seeds", "1", "--out", str(tmp_path))
    page = (tmp_path / "results" / "drift.md").read_text()
    recoveries, others = page.split("## Without a change")
    assert all(recoveries.count(f"| {entrant.name} |") == 1 for entrant in ENTRANTS[:3])
    assert ORACLE.name not in others
    assert "| uniform |" in others
    assert (tmp_path / "results" / "drift.png").stat().st_size > 1000
    assert not (tmp_path / "results" / "drift.svg").exists()


def test_a_stream_without_its_file_is_skipped(tmp_path: Path) -> None:
    """Name each stream that is skipped for lack of data."""
    assert "skipped pendigits" in run("--streams", "pendigits", "--out", str(tmp_path), code=1)
