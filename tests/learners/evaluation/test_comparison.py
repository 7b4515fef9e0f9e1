"""Intervals of a comparison cover what they say, and ties are those that the runs cannot tell apart."""

import numpy as np
import pytest
from scipy import stats

from learners.evaluation.comparison import (
    Entrant,
    checkpoints,
    curve,
    estimate,
    played,
    standings,
    student_quantile,
    three_quarters,
)


def entrant(name: str, errors: list[float], needs_true_label: bool = False) -> Entrant:
    runs = [played(np.arange(1000) < round(1000 * error), 0.5, 0.0) for error in errors]
    return Entrant(name, tuple(runs), needs_true_label)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.995, 0.999])
def test_quantiles_are_those_of_student(level: float) -> None:
    for degrees in (*range(1, 40), 100, 1000):
        expected = stats.t.ppf((1.0 + level) / 2.0, degrees)
        assert student_quantile(level, degrees) == pytest.approx(expected, rel=1e-5)


def test_intervals_cover_the_mean() -> None:
    values = np.random.default_rng(1).normal(0.3, 0.1, (4000, 5))
    found = [estimate(row) for row in values.tolist()]
    covered = np.mean([one.low <= 0.3 <= one.high for one in found if one.low is not None and one.high is not None])
    assert covered == pytest.approx(0.95, abs=0.012)
    assert estimate([0.5]) == (0.5, None, None, None)


def test_intervals_end_at_what_is_possible() -> None:
    best, other = standings([entrant("a", [0.2, 0.4]), entrant("b", [0.5, 0.2])])
    assert (best.error.low, best.error.high) == (0.0, 1.0)
    assert other.behind is not None
    assert (other.behind.low, other.behind.high) == (-1.0, 1.0)


def test_a_run_is_counted_at_its_checkpoints() -> None:
    rng = np.random.default_rng(2)
    for rounds in (4, 5, 61, 1000, 4321):
        mistakes = rng.random(rounds) < 0.3
        run = played(mistakes, 1.0, 0.0)
        assert run.error == mistakes.mean()
        assert run.late_error == mistakes[three_quarters(rounds) :].mean()
        assert len(checkpoints(rounds)) <= 62
        assert [point for point, _ in curve(Entrant("one", (run, run)))] == [t for t in run.rounds if t]


def test_differences_are_paired() -> None:
    noise = [0.2, 0.5, 0.3, 0.6, 0.4]
    table = standings(
        [
            entrant("always behind", [error + 0.05 for error in noise]),
            entrant("best", noise),
            entrant("sometimes behind", [0.2, 0.6, 0.2, 0.7, 0.4]),
        ]
    )
    assert [(one.name, one.tied) for one in table] == [
        ("best", True),
        ("sometimes behind", True),
        ("always behind", False),
    ]
    assert table[2].behind is not None
    assert table[2].behind.mean == pytest.approx(0.05)
    assert table[0].rounds_per_second == 2000.0


def test_intervals_of_differences_widen_with_the_number_of_learners() -> None:
    errors = [0.30, 0.32, 0.31, 0.33, 0.30], [0.33, 0.33, 0.36, 0.34, 0.33]
    two = standings([entrant("a", errors[0]), entrant("b", errors[1])])[1].behind
    four = standings([entrant("a", errors[0]), *(entrant(name, errors[1]) for name in "bcd")])[1].behind
    assert two is not None
    assert four is not None
    assert two.error is not None
    assert two.high == pytest.approx(two.mean + stats.t.ppf(0.975, 4) * two.error)
    assert four.high == pytest.approx(two.mean + stats.t.ppf(1 - 0.05 / 12, 4) * two.error)
