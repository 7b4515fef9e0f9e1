"""Plots the values of policies, with their intervals."""

from pathlib import Path

from service.schemas.reports import EvaluationAnswer
from toolkit.evaluation.columns import EvaluationError

_SHOWN = ("doubly_robust", "snips", "ips")


def plot(answer: EvaluationAnswer, path: Path) -> None:
    """Write a figure in the format of the file's suffix, such as .png or .svg."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.5 + 0.7 * len(answer.policies)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, policy in enumerate(answer.policies):
        axes.plot([policy.low, policy.high], [place, place], color="0.8", linewidth=8, solid_capstyle="butt")
        for i, name in enumerate(_SHOWN):
            for found in policy.estimates:
                if found.estimator == name:
                    y, ends = place + 0.2 * (i - 1), [found.low or found.value, found.high or found.value]
                    axes.plot(ends, [y, y], color=f"C{i}")
                    axes.plot([found.value], [y], "o", color=f"C{i}", label=name if place == 0 else None)
    axes.set_yticks(
        range(len(answer.policies)),
        [each.policy + (f" {each.label}" if each.label else "") for each in answer.policies],
    )
    axes.invert_yaxis()
    axes.set_xlabel("mean reward; grey: the conservative interval")
    axes.set_title(f"{answer.model}, {answer.rounds:,} rounds")
    axes.legend(loc="best")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"--plot {path}: {error}") from error
