"""The page of the contest."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.papers.contest import (
    PEER_NAME,
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
from benchmarks.papers.store import load
from benchmarks.papers.summary import markdown
from learners.base import FloatArray

_PARTS = {"overall": "all rounds", "late": "last quarter"}


def report(bouts: Sequence[Bout], folder: Path, pages: Path) -> None:
    """Write the page `contest.md`.

    Args:
        bouts: the bouts to report; all their runs are finished.
        folder: holds the runs.
        pages: receives the page.
    """
    results = [result(bout, lambda run: load(folder, run)) for bout in bouts]
    new, old = (run.algorithm for run in bouts[0].pairs[0])
    seeds = len(bouts[0].pairs)
    introduction = (
        f"Mistakes per round, mean (standard error) over {seeds} seeds, in all rounds / in the last quarter: {new} and "
        f"{old} with their defaults, and Vowpal Wabbit with `--squarecb --gamma_scale 100` ({PEER_NAME}), which plays "
        f"at most 3 seeds outside the papers' streams, and none with 100 or 200 labels, where it is slow. Where some "
        f"rounds have no right label, no learner reaches 0. The ratios divide the mean errors, with one mistake "
        f"added to each. `speed` is the median ratio of the rounds per second of {new} and {old}."
    )
    command = f"contest --new {new} --old {old} --seeds {seeds}"
    body = _errors_table(results, new, old) + "\n" + _summary_table(results, old) + _exceptions(results, new, old)
    write_page(pages, "contest", f"The contest: {new}", introduction, command, body)


def _errors_table(results: Sequence[Result], new: str, old: str) -> str:
    header = ["stream", "rounds", new, old, PEER_NAME, f"/ {old}", f"/ {PEER_NAME}", "speed"]
    return markdown(header, [_line(one) for one in results])


def _line(one: Result) -> list[str]:
    errors = [_words(errors) for errors in (one.new, one.old, one.peer)]
    compared = [_both(one, against) for against in ("old", "peer")]
    return [one.stream, f"{one.rounds:,}", *errors, *compared, f"{one.speed:.2f}"]


def _both(one: Result, against: str) -> str:
    return " / ".join(f"{ratio:.2f}" for part in _PARTS for ratio in ratios([one], against, part)) or "–"


def _words(errors: Errors | None) -> str:
    if errors is None:
        return "–"
    return " / ".join(f"{values.mean():.4f} ({standard_error(values):.4f})" for values in errors)


def _summary_table(results: Sequence[Result], old: str) -> str:
    header = ["streams", "ratio to", *(f"{kind}, {words}" for words in _PARTS.values() for kind in ("mean", "worst"))]
    groups: dict[str, Callable[[Result], bool]] = {
        "papers'": lambda one: one.stream in PAPERS,
        "others": lambda one: one.stream not in PAPERS,
        "all": lambda _: True,
    }
    chosen = {name: [one for one in results if belongs(one)] for name, belongs in groups.items()}
    lines = [
        [name, words, *_cells(some, against)]
        for name, some in chosen.items()
        for against, words in (("old", old), ("peer", PEER_NAME))
        if any(getattr(one, against) is not None for one in some)
    ]
    return "Geometric means and worst ratios:\n\n" + markdown(header, lines)


def _cells(some: Sequence[Result], against: str) -> list[str]:
    played = [one for one in some if getattr(one, against) is not None]
    return [cell for part in _PARTS for cell in _mean_and_worst(played, ratios(played, against, part))]


def _mean_and_worst(some: Sequence[Result], values: FloatArray) -> tuple[str, str]:
    worst = int(values.argmax())
    return f"{geometric_mean(values):.3f}", f"{values[worst]:.2f} ({some[worst].stream})"


def _exceptions(results: Sequence[Result], new: str, old: str) -> str:
    return "".join(
        f"\n{new} has a larger error than {name} by over one standard error, {words}: "
        f"{', '.join(one.stream for one in results if is_worse(one, against, part)) or 'on no stream'}.\n"
        for against, name in (("old", old), ("peer", PEER_NAME))
        for part, words in _PARTS.items()
    )
