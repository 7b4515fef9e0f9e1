"""Plots the values of policies, with their intervals."""

from pathlib import Path
from typing import Any

from service.schemas.reports import EvaluationAnswer
from toolkit.evaluation.columns import EvaluationError

_SHOWN = {"doubly_robust": "o", "snips": "s", "ips": "D"}  # estimators with their markers


def plot(answer: EvaluationAnswer, path: Path) -> None:
    """Write a figure in the format of the file's suffix, such as .png or .svg."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 2.0 + 0.8 * len(answer.policies)), layout="constrained")
    FigureCanvasAgg(figure)
    draw(answer, figure.add_subplot())
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"--plot {path}: {error}") from error


def draw(answer: EvaluationAnswer, axes: Any) -> None:
    """Draw each policy's estimates with their bootstrap intervals, over a bar for its conservative interval."""
    keys = dict[str, Any]()
    for place, policy in enumerate(answer.policies):
        look = {"facecolor": "0.93", "edgecolor": "0.7", "hatch": "//", "linewidth": 0.5}
        width = policy.high - policy.low
        keys["conservative interval"] = axes.barh([place], [width], height=0.7, left=[policy.low], **look)
        found = {each.estimator: each for each in policy.estimates}
        for i, (name, marker) in enumerate(_SHOWN.items()):
            if (each := found.get(name)) is not None:
                low, high = [each.value if end is None else end for end in (each.low, each.high)]
                y, reach = place + 0.2 * (i - 1), [[each.value - low], [high - each.value]]
                look = {"fmt": marker, "color": f"C{i}", "mfc": "white" if each.doubt else f"C{i}"}
                keys[name] = axes.errorbar([each.value], [y], xerr=reach, capsize=3, **look)
    names = [each.policy + (f" {each.label}" if each.label else "") for each in answer.policies]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("mean reward, with 95 % intervals; white markers are not to be trusted")
    axes.set_title(f"{answer.model}: values of policies on {answer.rounds:,} rounds")
    axes.legend(list(keys.values()), list(keys), loc="best", fontsize="small")
