"""The page of the contest."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.papers.contest import (
    BLIND_NAME,
    MOST_LABELS,
    RIDGE_NAME,
    TRAFFIC,
    VW_NAME,
    Bout,
    Errors,
    Result,
    geometric_mean,
    is_worse,
    ratios,
    result,
    standard_error,
)
from benchmarks.papers.defaults import STREAMS as PAPERS
from benchmarks.papers.pages import write_page
from benchmarks.papers.ridge_bound import MOST_FEATURES
from benchmarks.papers.store import load
from benchmarks.papers.summary import markdown
from learners.base import FloatArray

_PARTS = {"overall": "all rounds", "late": "last quarter"}

_GROUPS: dict[str, Callable[[Result], bool]] = {
    "papers'": lambda one: one.stream in PAPERS,
    "traffic": lambda one: one.stream in TRAFFIC,
    "others": lambda one: one.stream not in PAPERS and one.stream not in TRAFFIC,
    "all": lambda _: True,
}


def report(bouts: Sequence[Bout], folder: Path, pages: Path) -> None:
    """Write the page `contest.md`.

    Args:
        bouts: the bouts to report; all their runs are finished.
        folder: holds the runs.
        pages: receives the page.
    """
    results = [result(bout, lambda run: load(folder, run)) for bout in bouts]
    new, old = (run.algorithm for run in bouts[0].pairs[0])
    seeds, others = len(bouts[0].pairs), [old, VW_NAME, RIDGE_NAME, BLIND_NAME]
    introduction = (
        f"Loss per round, 1 - reward, mean (standard error) over {seeds} seeds, in all rounds / in the last quarter: "
        f"{new} and {old} with their defaults, and three peers, which play at most 3 seeds outside the papers' "
        f"streams. {VW_NAME} is Vowpal Wabbit with `--squarecb --gamma_scale 100`; it does not play with over "
        f"{MOST_LABELS} labels, where it is slow. {RIDGE_NAME} is ridge regression with an upper confidence bound, "
        f"α = 0.1, on standardized features; it plays with at most {MOST_FEATURES} features. `{BLIND_NAME}` is {new} "
        "with a constant in place of the contexts. Where one label is right in each round, the loss counts mistakes. "
        "Where no label is right in some rounds, or rewards are graded, no learner reaches 0. The ratios divide the "
        f"mean losses, with one mistake added to each. `speed` is the median ratio of the rounds per second of {new} "
        f"and {old}."
    )
    of_traffic = "--traffic " if all(one.stream in TRAFFIC for one in results) else ""
    command = f"contest {of_traffic}--new {new} --old {old} --seeds {seeds}"
    tables = _errors_table(results, new, others) + "\n" + _summary_table(results, others)
    write_page(
        pages, "contest", f"The contest: {new}", introduction, command, tables + _exceptions(results, new, others)
    )


def _errors_table(results: Sequence[Result], new: str, others: Sequence[str]) -> str:
    header = ["stream", "rounds", new, *others, *(f"/ {name}" for name in others), "speed"]
    return markdown(header, [_line(one, others) for one in results])


def _line(one: Result, others: Sequence[str]) -> list[str]:
    errors = [_words(one.new), *(_words(one.others.get(name)) for name in others)]
    compared = [_both(one, against) for against in others]
    return [one.stream, f"{one.rounds:,}", *errors, *compared, f"{one.speed:.2f}"]


def _both(one: Result, against: str) -> str:
    return " / ".join(f"{ratio:.2f}" for part in _PARTS for ratio in ratios([one], against, part)) or "–"


def _words(errors: Errors | None) -> str:
    if errors is None:
        return "–"
    return " / ".join(f"{values.mean():.4f} ({standard_error(values):.4f})" for values in errors)


def _summary_table(results: Sequence[Result], others: Sequence[str]) -> str:
    header = ["streams", "ratio to", *(f"{kind}, {words}" for words in _PARTS.values() for kind in ("mean", "worst"))]
    lines = [
        [group, against, *_cells(played, against)]
        for group, belongs in _GROUPS.items()
        for against in others
        if (played := [one for one in results if belongs(one) and against in one.others])
    ]
    return "Geometric means and worst ratios:\n\n" + markdown(header, lines)


def _cells(played: Sequence[Result], against: str) -> list[str]:
    return [cell for part in _PARTS for cell in _mean_and_worst(played, ratios(played, against, part))]


def _mean_and_worst(some: Sequence[Result], values: FloatArray) -> tuple[str, str]:
    worst = int(values.argmax())
    return f"{geometric_mean(values):.3f}", f"{values[worst]:.2f} ({some[worst].stream})"


def _exceptions(results: Sequence[Result], new: str, others: Sequence[str]) -> str:
    return "".join(
        f"\n{new} has a larger loss than {name} by over one standard error, {words}: "
        f"{', '.join(one.stream for one in results if is_worse(one, name, part)) or 'on no stream'}.\n"
        for name in others
        for part, words in _PARTS.items()
    )
