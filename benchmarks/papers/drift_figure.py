"""The figure of the change of all labels: the error in a moving window against rounds, one panel per stream."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from learners.base import FloatArray

_COLOURS = ("#333333", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
"""Black for the oracle, then colours of Okabe and Ito, which colour-blind readers can distinguish."""

_STYLE: Any = {"font.size": 9.5, "axes.spines.right": False, "axes.spines.top": False, "svg.hashsalt": "wager"}
_LEAST = 1e-4  # replaces smaller errors, for a logarithmic axis


def draw_windows(path: Path, title: str, window: int, panels: Mapping[str, Mapping[str, FloatArray]]) -> None:
    """Draw curves of errors by stream and by learner, as PNG and SVG.

    Args:
        path: the file without its suffix.
        title: the first words of each panel's title, before the stream.
        window: rounds of the moving window.
        panels: mistakes per round in each window; entry i is of the window after round i.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 3.2 * len(panels)), layout="constrained")
        for axes, (stream, curves) in zip(
            figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True
        ):
            _draw_panel(axes, window, curves)
            axes.set_title(f"{title}: {stream}", loc="left", fontsize=10.5, fontweight="bold")
        for kind in ("png", "svg"):
            figure.savefig(path.with_suffix(f".{kind}"), dpi=130, metadata={"Date": None} if kind == "svg" else None)


def _draw_panel(axes: Axes, window: int, curves: Mapping[str, FloatArray]) -> None:
    for colour, (name, errors) in zip(_COLOURS, curves.items(), strict=False):
        shown = np.arange(0, len(errors), max(1, window // 10))
        dash = "--" if colour == _COLOURS[0] else "-"
        axes.plot(shown + window, np.maximum(errors[shown], _LEAST), dash, linewidth=1.4, color=colour, label=name)
    axes.set(xlabel="rounds", ylabel=f"error in {window:,} rounds", yscale="log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
