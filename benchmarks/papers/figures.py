"""The figures of an experiment, in the style of Figure 2 of Beygelzimer, Orabona and Zhang 2017.

A learner has the same colour and dash in every figure. Each curve is labelled at its end; overlapping names are moved
apart. The colours are Okabe and Ito's, which colour-blind readers can distinguish. Learners under full information are
dashed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import isotonic_regression

from benchmarks.papers.summary import Summary
from learners.base import FloatArray, IntArray

_COLOURS = {
    "Banditron": "#D55E00",
    "PNewtron": "#CC79A7",
    "SOBA": "#0072B2",
    "SOBAdiag": "#56B4E9",
    "Gaptron, 30η": "#009E73",
    "Gaptron": "#7FBFA8",
    "bandit perceptrons": "#E69F00",
    "kernel perceptrons": "#8C6D00",
    "Perceptron": "#444444",
    "Gaptron, full": "#006B4F",
    "Fenchel–Young": "#8A8A8A",
    "Perceptron, all features": "#444444",
    "Perceptron, 8 features": "#E69F00",
    "FOLKLORE, 8 features": "#0072B2",
    "cost regression, 8 features": "#D55E00",
}
_MARKERS = {"Banditron": "o", "PNewtron": "s", "SOBA": "D", "SOBAdiag": "^", "Gaptron, 30η": "v", "Gaptron": "P"}
_INK, _FAINT = "#333333", "#DDDDDD"
_STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.hashsalt": "wager",
}
_BOX = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "none"}
_LINE_HEIGHT = 12.0  # points between two names


class Curves(NamedTuple):
    """A learner's outcomes by rate. A learner without a rate has a single entry, with rate None."""

    name: str
    full_information: bool
    by_rate: list[tuple[float | None, Summary]]

    @property
    def best(self) -> tuple[float | None, Summary]:
        """The rate with the smallest mean error, and its outcomes."""
        return min(self.by_rate, key=lambda pair: float(pair[1].error.mean()))

    @property
    def explores(self) -> bool:
        """Whether the learner has a rate."""
        return self.by_rate[0][0] is not None

    @property
    def look(self) -> dict[str, Any]:
        """The colour and dash of the curve."""
        dash = (0, (4, 2)) if self.full_information else "-"
        return {"color": _COLOURS.get(self.name, _INK), "linestyle": dash}


class _Name(NamedTuple):
    text: str
    y: float  # where the curve ends
    colour: str


def draw_rates(path: Path, title: str, curves: Sequence[Curves]) -> None:
    """Draw the error rate against the exploration rate: mean over seeds, with a band of one standard deviation."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(title, "exploration rate γ", "error rate")
        names = [_rate_curve(axes, one) if one.explores else _level(axes, one) for one in curves]
        axes.set_xscale("log", base=2)
        axes.margins(x=0.02)
        _log_errors(axes, [summary for one in curves for _, summary in one.by_rate])
        _finish(figure, axes, names, path)


def draw_rounds(path: Path, title: str, curves: Sequence[Curves]) -> None:
    """Draw the error rate against rounds on logarithmic axes, each learner at its best rate, with mean and band."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(title, "rounds", "error rate so far")
        names = [_round_curve(axes, one) for one in curves]
        axes.set_xscale("log")
        axes.set_xlim(10, max(one.best[1].checkpoints[-1] for one in curves))
        _log_errors(axes, [one.best[1] for one in curves])
        _finish(figure, axes, names, path)


def draw_mistakes(path: Path, title: str, curves: Sequence[Curves]) -> None:
    """Draw the mistakes so far against rounds, each learner at its best rate: mean over seeds, with its band."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(title, "rounds", "mistakes so far")
        names = [_mistakes_curve(axes, one) for one in curves]
        axes.margins(x=0.0)
        axes.set_ylim(0.0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        _finish(figure, axes, names, path)


def draw_regions(path: Path, title: str, points: FloatArray, labels: IntArray) -> None:
    """Draw points (n, 2) in the plane, with a colour for each group of three classes and a shade for each class."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
        axes.set(aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        for k in range(labels.max() + 1):
            mine, hue = points[labels == k], ("#D55E00", "#0072B2", "#009E73")[k // 3]
            axes.scatter(mine[:, 0], mine[:, 1], s=1.0, color=hue, alpha=(0.35, 1.0, 0.6)[k % 3], linewidths=0)
            axes.annotate(str(k), mine.mean(axis=0), ha="center", va="center", fontsize=11, bbox=_BOX)
        _save(figure, path)


def _mistakes_curve(axes: Axes, curves: Curves) -> _Name:
    rate, summary = curves.best
    name = curves.name if rate is None else f"{curves.name}, γ = {_power(rate)}"
    return _mean_and_band(axes, curves, name, summary.checkpoints, summary.curves * summary.checkpoints, {})


def draw_sizes(path: Path, title: str, x: str, sizes: Sequence[int], errors: dict[str, FloatArray]) -> None:
    """Draw the error rates (seeds, sizes) by name against sizes, powers of two: mean over seeds, with a band."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(title, x, "error rate")
        curves = [(Curves(name, False, []), of) for name, of in errors.items()]
        places = np.array(sizes, dtype=np.float64)
        names = [_mean_and_band(axes, one, one.name, places, of, {"marker": "o"}) for one, of in curves]
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.margins(x=0.02)
        _finish(figure, axes, names, path)


def _rate_curve(axes: Axes, curves: Curves) -> _Name:
    rates = np.array([rate for rate, _ in curves.by_rate], dtype=np.float64)
    errors = np.array([summary.error for _, summary in curves.by_rate])
    marker = {"marker": _MARKERS.get(curves.name, "o"), "markersize": 4, "markeredgewidth": 0}
    return _mean_and_band(axes, curves, curves.name, rates, errors.T, marker)


def _level(axes: Axes, curves: Curves) -> _Name:
    error = float(curves.by_rate[0][1].error.mean())
    axes.axhline(error, linewidth=1.3, **curves.look)
    return _Name(curves.name, error, curves.look["color"])


def _round_curve(axes: Axes, curves: Curves) -> _Name:
    rate, summary = curves.best
    name = curves.name if rate is None else f"{curves.name}, γ = {_power(rate)}"
    return _mean_and_band(axes, curves, name, summary.checkpoints, summary.curves, {})


def _mean_and_band(
    axes: Axes, curves: Curves, name: str, x: FloatArray, errors: FloatArray, more: dict[str, Any]
) -> _Name:
    """Draw one curve with its band; errors are (seeds, points)."""
    mean, spread = errors.mean(axis=0), errors.std(axis=0)
    floor = _smallest(errors)
    axes.plot(x, np.maximum(mean, floor), linewidth=1.6, **curves.look, **more)
    low, high = np.maximum(mean - spread, floor / 2), np.maximum(mean + spread, floor / 2)
    axes.fill_between(x, low, high, color=curves.look["color"], alpha=0.15, linewidth=0)
    return _Name(name, float(max(mean[-1], floor)), curves.look["color"])


def _smallest(errors: FloatArray) -> float:
    """Return the smallest positive error, which replaces zero on a logarithmic axis."""
    positive = errors[errors > 0]
    return float(positive.min()) if positive.size else 1e-6


def _limits(summaries: Sequence[Summary]) -> tuple[float, float]:
    errors = np.array([summary.error.mean() for summary in summaries])
    return _smallest(errors) * 0.7, 1.0


def _power(rate: float) -> str:
    exponent = np.log2(rate)
    return f"$2^{{{exponent:.0f}}}$" if exponent == round(exponent) else f"{rate:g}"


def _canvas(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(which="major", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _log_errors(axes: Axes, summaries: Sequence[Summary]) -> None:
    """Put the errors on a logarithmic scale, down to just below the smallest one."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(*_limits(summaries))


def _finish(figure: Figure, axes: Axes, names: Sequence[_Name], path: Path) -> None:
    figure.canvas.draw()
    _write_names(figure, axes, names)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    for kind in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=160, metadata={"Date": None} if kind == "svg" else None)


def _write_names(figure: Figure, axes: Axes, names: Sequence[_Name]) -> None:
    """Write the names to the right of the axes, next to the ends of their curves, at least one line apart."""
    scale = 72.0 / figure.dpi  # pixels to points
    ordered = sorted(names, key=lambda name: name.y)
    wanted = np.array([axes.transData.transform((1.0, name.y))[1] for name in ordered]) * scale
    box = axes.get_window_extent()
    places = spread(wanted, _LINE_HEIGHT, box.y0 * scale, box.y1 * scale)
    for name, at, place in zip(ordered, wanted, places, strict=True):
        axes.annotate(
            name.text,
            xy=(1.0, (at / scale - box.y0) / box.height),
            xycoords="axes fraction",
            xytext=(16, place - at),
            textcoords="offset points",
            color=name.colour,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": name.colour, "linewidth": 0.7, "relpos": (0.0, 0.5), "shrinkB": 2},
        )


def spread(wanted: FloatArray, apart: float, low: float, high: float) -> FloatArray:
    """Return the places (n,) nearest to the wanted ascending ones, at least `apart`, between `low` and `high`."""
    steps = apart * np.arange(len(wanted))
    places = isotonic_regression(wanted - steps).x + steps
    return np.asarray(np.minimum(np.maximum(places, low + steps), high - steps[::-1]))
