"""The plot of a comparison. Only this module needs matplotlib."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from learners.evaluation.comparison import Estimate

Curves = Mapping[str, Sequence[tuple[int, Estimate]]]


def draw_curves(curves: Curves, references: Any, axes: Any = None) -> Any:
    """Draw the share of mistakes so far against the rounds, with intervals as bands; return the axes.

    Args:
        curves: the learning curve of each learner.
        references: the errors without learning.
        axes: where to draw; new axes of a figure without a window if None.
    """
    if axes is None:
        axes = Figure(figsize=(8.0, 5.0), layout="constrained").subplots()
    for name, curve in curves.items():
        rounds = [t for t, _ in curve]
        (line,) = axes.plot(rounds, [one.mean for _, one in curve], label=name)
        if all(one.low is not None for _, one in curve):
            lows, highs = [one.low for _, one in curve], [one.high for _, one in curve]
            axes.fill_between(rounds, lows, highs, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.axhline(references.majority, color="gray", linestyle="--", label=f"always {references.majority_label[:40]}")
    axes.axhline(references.uniform, color="gray", linestyle=":", label="uniform")
    axes.set(xscale="log", xlabel="rounds", ylabel="share of mistakes so far", ylim=(0.0, 1.0))
    axes.legend(fontsize="small")
    return axes
