"""The result of a comparison: rows, a table, a recommendation with its reasons, and a plot."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.estimators.candidates import Candidate
from learners.estimators.runs import Examples
from learners.evaluation.comparison import LEVEL, Entrant, Estimate, Standing, curve, standings
from learners.registry import RECOMMENDED


class LeftOut(NamedTuple):
    """A learner that did not play."""

    name: str
    reason: str


class References(NamedTuple):
    """The errors of two policies that do not learn."""

    majority: float  # of always answering the most frequent label
    majority_label: str
    uniform: float  # of answering each label with the same probability


def reference_points(examples: Examples) -> References:
    """Return the errors, on these examples, of two policies that do not learn."""
    counts = np.bincount(examples.labels, minlength=len(examples.classes))
    most = int(counts.argmax())
    return References(1.0 - counts[most] / examples.n, str(examples.classes[most]), 1.0 - 1.0 / len(examples.classes))


class Spent(NamedTuple):
    """Seconds, summed over all runs in all processes, including the runs that select settings."""

    playing: float
    preparing: float  # loading the kernels beforehand, or compiling them


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Learners that played the same rounds."""

    entrants: tuple[Entrant, ...]  # the learners with their runs
    candidates: tuple[Candidate, ...]  # their settings, in the same order
    left_out: tuple[LeftOut, ...]  # learners that could not play, with the reason
    references: References  # errors without learning
    rounds: int  # the rounds of each run
    seeds: int  # the number of runs of each learner
    spent: Spent

    @property
    def standings(self) -> list[Standing]:
        """The learners ordered by error. Learners that need the true label cannot be the best, unless all need it."""
        bandits = [one.name for one in self.entrants if not one.needs_true_label]
        return standings(self.entrants, bandits or None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The standings as dictionaries of plain values, for example for a data frame."""
        return [_row(one, self.candidate(one.name)) for one in self.standings]

    def candidate(self, name: str) -> Candidate:
        """Return the candidate with this name."""
        return next(one for one in self.candidates if one.name == name)

    @property
    def recommended(self) -> str:
        """The name of the learner to use: the default one if, over several seeds, it ties with the best; else the best.

        As in `standings`, a learner that needs the true label is recommended only if all need it.
        """
        bandits = not all(one.needs_true_label for one in self.entrants)
        tied = [one for one in self.standings if one.tied and not (bandits and one.needs_true_label)]
        best = next(one for one in tied if one.behind is None)
        if self.seeds < 2:
            return best.name
        return next((one.name for one in tied if one.name == RECOMMENDED.algorithm), best.name)

    @property
    def why(self) -> list[str]:
        """The reasons for the recommendation, one sentence each."""
        return _reasons(self)

    def table(self) -> str:
        """Return the standings as text, with the errors in percent."""
        return _table(self)

    def __str__(self) -> str:
        playing, preparing = self.spent
        times = (
            f"Playing took {playing:.1f} s in total; loading or compiling the learners took {preparing:.1f} s more, "
            "which rounds/s does not include."
        )
        advice = [f"Use {self.recommended}.", *(f"- {reason}" for reason in self.why)]
        return "\n".join([self.table(), "", times, "", *advice])

    def plot(self, axes: object = None) -> Any:
        """Draw the learning curves on given or new axes; return the axes. Raises `ImportError` without matplotlib."""
        from matplotlib.figure import Figure

        return _drawn(self, Figure(figsize=(8.0, 5.0), layout="constrained").subplots() if axes is None else axes)


def _row(one: Standing, candidate: Candidate) -> dict[str, Any]:
    learner = {"algorithm": candidate.choice.algorithm, **dict(candidate.choice.hyperparameters or {})}
    return {
        "name": one.name,
        "learner": learner,
        "error": one.error._asdict(),
        "late_error": one.late_error._asdict(),
        "above_best": None if one.behind is None else one.behind._asdict(),
        "tied_with_best": one.tied,
        "rounds_per_second": round(one.rounds_per_second),
        "needs_true_label": one.needs_true_label,
    }


def _table(comparison: Comparison) -> str:
    header = ("learner", "error", "± 95 %", "last quarter", "± 95 %", "above best", "rounds/s", "")
    lines: list[Sequence[str]] = [header]
    for one in comparison.standings:
        behind = "best" if one.behind is None else _signed(one.behind)
        notes = ["tied"] * (one.tied and one.behind is not None) + ["true label"] * one.needs_true_label
        errors = _percent(one.error.mean), _reach(one.error), _percent(one.late_error.mean), _reach(one.late_error)
        lines.append((one.name, *errors, behind, f"{int(float(f'{one.rounds_per_second:.1e}')):,}", ", ".join(notes)))
    majority, label, uniform = comparison.references
    lines.append((f"(always {label[:40]})", _percent(majority), "", "", "", "", "", ""))
    lines.append(("(uniform)", _percent(uniform), "", "", "", "", "", ""))
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *middle, last = line
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True))]
    return "  ".join([*cells, last]).rstrip()


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f}"


def _reach(estimate: Estimate) -> str:
    return "" if estimate.high is None else f"{100.0 * (estimate.high - estimate.mean):.2f}"


def _signed(difference: Estimate) -> str:
    text = f"{100.0 * difference.mean:+.2f}"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} ({100.0 * difference.low:+.2f} to {100.0 * difference.high:+.2f})"


def _reasons(comparison: Comparison) -> list[str]:
    table, name = comparison.standings, comparison.recommended
    chosen = next(one for one in table if one.name == name)
    reasons = [_of_error(chosen, comparison)]
    tied = [one.name for one in table if one.tied and one.name != name and not one.needs_true_label]
    behind = [one for one in table if not one.tied and one.behind and one.behind.mean > 0.0]
    if comparison.seeds < 2:
        reasons.append("A single seed gives no intervals: use at least 5 seeds before you rely on the order.")
    elif tied:
        reasons.append(f"Tied with it within the noise: {', '.join(tied)}. More seeds or rounds may tell them apart.")
    if behind and behind[0].behind and comparison.seeds > 1:
        more = _signed(behind[0].behind).replace("+", "")
        reasons.append(f"The next, {behind[0].name}, has {more} percentage points more mistakes than the best.")
    full = [one for one in table if one.needs_true_label and one.error.mean < chosen.error.mean]
    if full and not chosen.needs_true_label:
        reasons.append(
            f"If feedback has the true label, {full[0].name} has an error of {_percent(full[0].error.mean)} %."
        )
    reasons += _of_references(chosen, comparison)
    return reasons + [f"Left out: {left}: {why}." for left, why in comparison.left_out]


def _of_error(chosen: Standing, comparison: Comparison) -> str:
    mean, _, low, high = chosen.error
    interval = (
        "" if low is None or high is None else f" ({100 * LEVEL:.0f} % interval {_percent(low)} to {_percent(high)})"
    )
    return (
        f"Its error over {comparison.rounds:,} rounds is {_percent(mean)} %{interval}, and "
        f"{_percent(chosen.late_error.mean)} % in the last quarter; a round takes "
        f"{1e6 / chosen.rounds_per_second:.3g} µs of one core."
    )


def _of_references(chosen: Standing, comparison: Comparison) -> list[str]:
    majority, label, _ = comparison.references
    low = chosen.late_error.mean if chosen.late_error.low is None else chosen.late_error.low
    if low < majority:
        return [f"Always answering {label} has an error of {_percent(majority)} %."]
    return [
        f"In the last quarter it is not better than always answering {label} ({_percent(majority)} %): the features do "
        "not help, or the rounds are too few."
    ]


_HATCHES = ("///", "\\\\\\", "|||", "---", "xxx", "ooo", "...", "+++")
_MARKERS = "osD^vP*X"


def _drawn(comparison: Comparison, axes: Any) -> Any:
    keys, names = list[Any](), list[str]()
    for i, one in enumerate(comparison.entrants):  # patterns and markers distinguish the learners without colours
        points = curve(one)
        rounds, mark = [t for t, _ in points], _MARKERS[i % len(_MARKERS)]
        (line,) = axes.plot(rounds, [each.mean for _, each in points], marker=mark, markevery=8, markersize=5)
        key: list[Any] = [line]
        if all(each.low is not None for _, each in points):
            lows, highs = [each.low for _, each in points], [each.high for _, each in points]
            looks = {"hatch": _HATCHES[i % len(_HATCHES)], "facecolor": "none", "edgecolor": line.get_color()}
            key.append(axes.fill_between(rounds, lows, highs, alpha=0.4, linewidth=0.5, **looks))
        keys, names = [*keys, tuple(key)], [*names, one.name]
    majority, label, uniform = comparison.references
    keys += [axes.axhline(majority, color="gray", linestyle="--"), axes.axhline(uniform, color="gray", linestyle=":")]
    axes.set(xscale="log", xlabel="rounds", ylabel="share of mistakes so far", ylim=(0.0, 1.0))
    axes.set_xlim(left=max(1, min(10, comparison.rounds // 10)))  # further left, the bands cover everything
    bands = f"; bands are 95 % intervals over {comparison.seeds} seeds" if comparison.seeds > 1 else ""
    axes.set_title(f"mistakes of learners{bands}", fontsize="medium")
    axes.legend(keys, [*names, f"always {label[:40]}", "uniform"], fontsize="small", handlelength=3.0)
    return axes
