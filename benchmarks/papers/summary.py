"""Summaries of outcomes over seeds, and tables."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.runs import Outcome
from learners.base import FloatArray


class Summary(NamedTuple):
    """The outcomes of one learner with one setting, over seeds."""

    error: FloatArray  # (seeds,) mean loss per round
    late_error: FloatArray  # (seeds,) mean loss per round over the last quarter
    speed: float  # rounds per second, median over seeds
    checkpoints: FloatArray  # (points,) numbers of rounds
    curves: FloatArray  # (seeds, points) mean loss per round up to each checkpoint


def summarize(outcomes: Sequence[Outcome]) -> Summary:
    """Summarize outcomes of runs that differ only in their seed."""
    points = np.array(outcomes[0].checkpoints, dtype=np.float64)
    return Summary(
        error=np.array([outcome.error for outcome in outcomes]),
        late_error=np.array([outcome.late_error for outcome in outcomes]),
        speed=float(np.median([outcome.rounds / outcome.seconds for outcome in outcomes])),
        checkpoints=points,
        curves=np.array([outcome.losses for outcome in outcomes]) / points,
    )


def deviation(values: FloatArray) -> float:
    """Return the sample standard deviation, 0 for a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def with_deviation(values: FloatArray) -> str:
    """Format values as `mean (std)`."""
    return f"{values.mean():.4f} ({deviation(values):.4f})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table as a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    path.write_text(text.getvalue())
