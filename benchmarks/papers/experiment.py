"""One of the papers' experiments: its runs, its tables and its figures."""

import itertools
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.papers import figures
from benchmarks.papers.data.chunks import Stream
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.lineup import RATES, Entrant, Experiment
from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.summary import Summary, deviation, markdown, summarize, with_deviation, write_csv
from learners.base import StateTooLargeError
from learners.new_models import check_state_size
from learners.registry import LEARNERS

MAX_STATE = 2**30
"""Limit of a learner's state in bytes. Larger learners are left out, and the page names them."""
_POINTS = 20_000
"""The number of points in the figure of regions."""


class Setting(NamedTuple):
    """An entrant (see `lineup`) at one exploration rate, or without a rate, with its runs over seeds."""

    entrant: Entrant
    rate: float | None
    runs: list[Run]


Result: TypeAlias = tuple[Setting, Summary]


class Plan(NamedTuple):
    """The runs of an experiment."""

    experiment: Experiment
    rounds: int
    seeds: int
    settings: list[Setting]
    left_out: list[str]  # one sentence per entrant that is left out

    @property
    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that the first part of the work is the experiment with fewer seeds."""
        return [setting.runs[seed] for seed in range(self.seeds) for setting in self.settings]


def plan(
    experiment: Experiment,
    file: str | None,
    rounds: int | None,
    seeds: int,
    only: Sequence[str] = (),
    rates: Sequence[float] = RATES,
) -> Plan:
    """Plan an experiment: all entrants, or only the named algorithms."""
    stream = open_stream(experiment.stream, file)
    T = rounds or experiment.rounds or (stream.size or 0) * experiment.passes
    settings, left_out = [], []
    for entrant in experiment.entrants:
        if only and entrant.algorithm not in only:
            continue
        if (reason := _too_large(entrant, stream)) is not None:
            left_out.append(f"{entrant.name}: {reason}.")
            continue
        for rate in rates if entrant.explores else (None,):
            what = experiment.stream, file, entrant.algorithm, entrant.settings(stream.problem, rate), T
            settings.append(Setting(entrant, rate, [Run(*what, seed) for seed in range(seeds)]))
    return Plan(experiment, T, seeds, settings, left_out)


def _too_large(entrant: Entrant, stream: Stream) -> str | None:
    learner = LEARNERS[entrant.algorithm](problem=stream.problem, **entrant.settings(stream.problem, None))
    try:
        check_state_size(learner, MAX_STATE)
    except StateTooLargeError as error:
        return str(error)
    return None


def report(the_plan: Plan, folder: Path, pages: Path) -> None:
    """Write the tables and figures of an experiment.

    Args:
        the_plan: the experiment; all its runs are finished.
        folder: holds the runs, and receives table.csv and the figures in a folder with the experiment's name.
        pages: receives the Markdown page and the figures that it shows.
    """
    out = folder / the_plan.experiment.name
    out.mkdir(parents=True, exist_ok=True)
    results = [(setting, summarize([load(folder, run) for run in setting.runs])) for setting in the_plan.settings]
    write_csv(out / "table.csv", _CSV_HEADER, [_csv_row(*result) for result in results])
    _draw(the_plan, _curves(results), out)
    _write_page(the_plan, results, pages)
    for figure in _shown(the_plan.experiment):
        shutil.copy(out / figure.file, pages / figure.shown_as)


def _draw(the_plan: Plan, curves: Sequence[figures.Curves], out: Path) -> None:
    experiment = the_plan.experiment
    title = f"{experiment.title}: {the_plan.rounds:,} rounds, {the_plan.seeds} seeds"
    figures.draw_rates(out / "rates", title, curves)
    figures.draw_rounds(out / "rounds", title, curves)
    if experiment.mistakes_of:
        names = {entrant.name for entrant in experiment.mistakes_of}
        few = [one for one in curves if one.name in names]
        figures.draw_mistakes(out / "mistakes", title, few or curves)  # a trial may leave out all of the few
    if experiment.shows_regions:
        _draw_regions(experiment, out)


def _draw_regions(experiment: Experiment, out: Path) -> None:
    chunk = open_stream(experiment.stream, None).chunk(0, 0, _POINTS)
    figures.draw_regions(out / "regions", experiment.title, chunk.contexts.values.reshape(_POINTS, 2), chunk.labels)


class _Figure(NamedTuple):
    alternative: str
    file: str
    shown_as: str


def _shown(experiment: Experiment) -> list[_Figure]:
    """Return the figures of an experiment's page."""
    rates = _Figure("Error against exploration rate", "rates.png", f"{experiment.name}.png")
    rounds = _Figure("Error against rounds", "rounds.png", f"{experiment.name}_rounds.png")
    mistakes = _Figure("Mistakes against rounds", "mistakes.png", f"{experiment.name}_mistakes.png")
    regions = _Figure("Regions of the classes", "regions.png", f"{experiment.name}-layout.png")
    chosen = (
        any(entrant.explores for entrant in experiment.entrants),
        experiment.shows_rounds,
        bool(experiment.mistakes_of),
        experiment.shows_regions,
    )
    return list(itertools.compress((rates, rounds, mistakes, regions), chosen))


def _curves(results: Sequence[Result]) -> list[figures.Curves]:
    """Group results by entrant, in the order of the line-up."""
    curves: dict[str, figures.Curves] = {}
    for setting, summary in results:
        name = setting.entrant.name
        curves.setdefault(name, figures.Curves(name, setting.entrant.full_information, []))
        curves[name].by_rate.append((setting.rate, summary))
    return list(curves.values())


_CSV_HEADER = (
    *("learner", "algorithm", "information", "exploration", "seeds", "error_mean", "error_std"),
    *("last_quarter_error_mean", "last_quarter_error_std", "rounds_per_second"),
)


def _csv_row(setting: Setting, summary: Summary) -> list[object]:
    entrant, late = setting.entrant, summary.late_error
    return [
        *(entrant.name, entrant.algorithm, _information(entrant)),
        *("" if setting.rate is None else setting.rate, len(late), summary.error.mean(), deviation(summary.error)),
        *(late.mean(), deviation(late), round(summary.speed)),
    ]


def _information(entrant: Entrant) -> str:
    return "full" if entrant.full_information else "bandit"


def _write_page(the_plan: Plan, results: Sequence[Result], pages: Path) -> None:
    """Write the best rate of each learner, the figures, and the error at every rate."""
    experiment, rounds, seeds = the_plan.experiment, the_plan.rounds, the_plan.seeds
    introduction = f"{experiment.source}. {rounds:,} rounds, {seeds} seeds; mean (std) of mistakes per round."
    body = [
        *(f"Left out: {sentence}\n\n" for sentence in the_plan.left_out),
        _best_table(results) + "\n",
        *(f"![{figure.alternative}]({figure.shown_as})\n\n" for figure in _shown(experiment)),
        _rates_table(results),
    ]
    command = f"run {experiment.name} --seeds {seeds}"
    write_page(pages, experiment.name, experiment.title, introduction, command, "".join(body))


def _best_table(results: Sequence[Result]) -> str:
    rows = []
    for curves in _curves(results):
        rate, best = curves.best
        information = "full" if curves.full_information else "bandit"
        errors = with_deviation(best.error), with_deviation(best.late_error)
        rows.append([curves.name, information, rate_text(rate), *errors, f"{best.speed:,.0f}"])
    return markdown(["learner", "information", "best γ", "error", "last quarter", "rounds/s"], rows)


def _rates_table(results: Sequence[Result]) -> str:
    exploring = [curves for curves in _curves(results) if curves.explores]
    if not exploring:
        return ""
    header = ["γ", *(curves.name for curves in exploring)]
    rates = [rate for rate, _ in exploring[0].by_rate]
    rows = [
        [rate_text(rate), *(with_deviation(curves.by_rate[i][1].error) for curves in exploring)]
        for i, rate in enumerate(rates)
    ]
    return markdown(header, rows)


def rate_text(rate: float | None) -> str:
    """Format a rate, with powers of two as `2^n`; `–` without a rate."""
    if rate is None:
        return "–"
    mantissa, exponent = math.frexp(rate)
    return f"2^{exponent - 1}" if mantissa == 0.5 else f"{rate:g}"
