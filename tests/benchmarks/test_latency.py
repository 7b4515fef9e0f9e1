"""The rows of latencies show the measurements, and whether the driver was saturated."""

from benchmarks.measurements.latency import Path, path_rows
from benchmarks.traffic import feedback_bodies
from toolkit.load.timing import Histogram, Measured


def path_of(milliseconds: list[int], lag: float = 0.0, not_sent: int = 0) -> Path:
    """Return a path with these latencies."""
    latency, lags = Histogram(), Histogram()
    for each in milliseconds:
        latency.add(each / 1000)
    lags.add(lag)
    return Path(Measured(latency=latency, not_sent=not_sent), lags)


def test_the_tail_is_judged() -> None:
    """Accept one and a half times the baseline's p99, twice its p99.9, and no more."""
    baseline = path_of([1] * 900 + [10] * 98 + [20] * 2)
    met = path_rows("/predict", path_of([9] * 900 + [14] * 98 + [39] * 2), baseline)
    missed = path_rows("/predict", path_of([1] * 900 + [16] * 98 + [42] * 2), baseline)
    assert [row.what for row in met] == ["POST /predict, p50", "POST /predict, p99", "POST /predict, p99.9"]
    assert [row.wanted for row in met] == ["", "≤ 1.5", "≤ 2"]
    assert [row.met for row in met] == [True, True, True]
    assert [row.met for row in missed] == [True, False, False]


def test_a_saturated_driver_is_reported() -> None:
    """Name the saturated driver, and the requests it did not send, in the column of its path."""
    rows = path_rows("/predict", path_of([1], lag=0.05, not_sent=7), path_of([1], lag=0.001))
    assert all("the driver was saturated; 7 not sent" in row.figure for row in rows)
    assert not any("saturated" in row.baseline or "not sent" in row.baseline for row in rows)


def test_a_busy_driver_is_saturated() -> None:
    """Count a driver above 90 % of a core as saturated, even if it was never late."""
    assert Path(busy=0.95).saturated
    assert not Path(busy=0.5).saturated


def test_feedback_answers_the_predictions_that_were_made() -> None:
    """Mark one in three as right."""
    bodies = feedback_bodies([b'{"prediction_id": "m:%d"}' % i for i in range(4)])
    assert bodies[0] == b'{"prediction_id": "m:0", "correct": true}'
    assert [b"true" in body for body in bodies] == [True, False, False, True]
