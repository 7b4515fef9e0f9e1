"""Outcomes over seeds, and tables of them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.runs import Outcome
from learners.base import FloatArray


class Summary(NamedTuple):
    """One learner with one setting, over seeds."""

    error: FloatArray  # (seeds,) mistakes per round
    late_error: FloatArray  # (seeds,) the same over the last quarter
    speed: float  # rounds per second, the median
    checkpoints: FloatArray  # (points,) rounds
    curves: FloatArray  # (seeds, points) mistakes per round until each checkpoint


def summarize(outcomes: Sequence[Outcome]) -> Summary:
    """Of runs that differ in their seed."""
    points = np.array(outcomes[0].checkpoints, dtype=np.float64)
    return Summary(
        error=np.array([outcome.error for outcome in outcomes]),
        late_error=np.array([outcome.late_error for outcome in outcomes]),
        speed=float(np.median([outcome.rounds / outcome.seconds for outcome in outcomes])),
        checkpoints=points,
        curves=np.array([outcome.mistakes for outcome in outcomes]) / points,
    )


def deviation(values: FloatArray) -> float:
    """The standard deviation of a sample; 0 of a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def with_deviation(values: FloatArray) -> str:
    """`mean (std)`, for people."""
    return f"{values.mean():.4f} ({deviation(values):.4f})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table for programs."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    path.write_text(text.getvalue())
