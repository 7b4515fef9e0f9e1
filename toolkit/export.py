"""The command `wager export`: writes the log of a model to files."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import httpx2
import typer

from service.commands.options import EXIT_INTERRUPTED, fail
from service.error_messages.values import counted
from service.json_values import JsonMapping, JsonObject
from toolkit.files.exported import SUFFIXES, Export, Hole, Lines
from toolkit.offline_replay.distributions import Distributions
from toolkit.offline_replay.history import History, UnknownHistoryError
from toolkit.progress import Progress
from toolkit.remote import DEFAULT_URL, AsJson, Key, Url, call, changes, connect, pages, pages_until, path_of


def export(
    model: Annotated[str, typer.Option(help="Name of the model.")],
    output: Annotated[Path, typer.Option(help="A file with the suffix of the format, or a folder for parts.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="parquet, dsjson or ndjson. Default: that of the output's suffix, or parquet."),
    ] = None,
    after: Annotated[int, typer.Option(min=0, help="Only the rounds after this one.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum rounds.")] = None,
    part_rounds: Annotated[int, typer.Option(min=1, help="Rounds in a part.")] = 50_000,
    distributions: Annotated[bool, typer.Option(help="Recompute the distribution of each prediction.")] = True,
    follow: Annotated[bool, typer.Option(help="Continue with new rounds until interrupted. Needs a folder.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --follow: seconds between two looks.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Write the log of a model to files. In a folder, a repeated run adds only the missing rounds."""
    format_ = _format(output, format_)  # before the service is called
    job: _Job | None = None
    try:
        with connect(url, api_key) as client:
            wanted = Export(output, format_, call(client, "GET", path_of(model)).json())
            if follow and not wanted.is_folder:
                fail("--follow: needs a folder, as --output")
            job = _Job(client, wanted, wanted.begin(after), part_rounds, distributions)
            result = job.run(limit, every if follow else None)
    except KeyboardInterrupt:
        done = f"{job.written:,} rounds are written to {output}" if job and job.written else "nothing is written"
        fail(f"interrupted: {done}; repeat the command for the rest", EXIT_INTERRUPTED)
    typer.echo(json.dumps(result) if as_json else _sentence(result))


def _format(output: Path, named: str | None) -> str:
    """Return the format that the option names, else that of the output's suffix, else parquet."""
    of_suffix = next((each for each, suffix in SUFFIXES.items() if suffix == output.suffix), None)
    if output.suffix and of_suffix is None and not output.is_dir():
        suffixes = ", ".join(SUFFIXES.values())
        fail(f"--output: got {str(output)!r}; a file must end with {suffixes}, and a new folder has no suffix")
    chosen = named or of_suffix or "parquet"
    if chosen not in SUFFIXES:
        fail(f"--format: got {chosen!r}; must be one of {', '.join(SUFFIXES)}")
    if of_suffix not in {None, chosen} and not output.is_dir():
        fail(f"--output: {output} has the suffix of {of_suffix}, but --format is {chosen}")
    return chosen


class _Job:
    """One run of the command, which writes the missing rounds of an export.

    Attributes:
        written: the number of rounds that were written to files so far.
    """

    def __init__(
        self,
        client: httpx2.Client,
        export: Export,
        holes: Sequence[Hole],
        part_rounds: int,
        with_distributions: bool,
    ) -> None:
        self._client, self._export, self._holes, self._part_rounds = client, export, holes, part_rounds
        self._name: str = export.model["name"]
        self._history = History(lambda after: changes(client, self._name, after))
        self._distributions = Distributions(export.model, self._history) if with_distributions else None
        self._waiting: list[tuple[JsonMapping, list[float] | None, int | None]] = []  # line, distribution, label count
        self.written = self._known = self._parts = 0
        self._last = holes[-1].after
        self._missing = list[tuple[int, int]]()

    def run(self, limit: int | None, every: float | None) -> JsonObject:
        """Write the log; return the summary. With `--follow`, an interrupt ends the run normally."""
        seen = self._export.model["rounds_seen"]
        total = sum(max(0, (seen if each.until is None else each.until) - each.after) for each in self._holes)
        began = time.monotonic()
        with Progress("exporting", None if every else min(total, limit or total)) as progress:
            try:
                for lines in self._pages(limit, every):
                    self._take(lines)
                    progress.advance(len(lines))
            except KeyboardInterrupt:
                if every is None:
                    raise
        if self._waiting or (not self._export.is_folder and not self.written):
            self._flush()
        return self._summary(time.monotonic() - began)

    def _pages(self, limit: int | None, every: float | None) -> Iterator[list[JsonObject]]:
        """Yield the pages to write. Replay the rounds before each hole first, to recompute its distributions."""
        left, replayed = limit, 0
        for hole in self._holes:
            if self._distributions is not None:
                reasons = self._distributions.reasons.copy()
                for lines in pages_until(self._client, self._name, replayed, hole.after):
                    self._distributions.of(lines)
                self._distributions.reasons = reasons  # ignore the reasons of rounds that are not written
            if hole.until is None:
                yield from pages(self._client, self._name, hole.after, left, lambda: self._wait(every))
                return
            found = 0
            for lines in pages_until(self._client, self._name, hole.after, hole.until, left):
                found += len(lines)
                yield lines
            if self._waiting:
                self._flush()
            if not found:
                self._missing.append((hole.after + 1, hole.until))
            replayed, left = hole.until, None if left is None else left - found
            if left == 0:
                return

    def _wait(self, every: float | None) -> bool:
        """Write the waiting rounds, and wait for new ones; return False without `--follow`."""
        if every is None:
            return False
        if self._waiting:
            self._flush()
        time.sleep(every)
        return True

    def _take(self, lines: list[JsonObject]) -> None:
        if lines and lines[-1]["changes"] > self._export.model["changes"]["count"]:  # the model changed during the run
            self._export = self._export.renewed(call(self._client, "GET", path_of(self._name)).json())
        distributions = [None] * len(lines) if self._distributions is None else self._distributions.of(lines)
        self._waiting += zip(lines, distributions, map(self._label_count, lines), strict=True)
        while self._export.is_folder and len(self._waiting) >= self._part_rounds:
            self._flush(self._part_rounds)

    def _label_count(self, line: JsonMapping) -> int | None:
        """Return how many labels the model had at a prediction; None if unknown, or if the model has actions."""
        if self._export.model["actions"] is not None:
            return None
        try:
            return self._history.label_count(line["changes_seen"])
        except UnknownHistoryError:
            return None

    def _flush(self, n: int | None = None) -> None:
        """Write the first n waiting lines, or all of them, as a part."""
        part, self._waiting = self._waiting[:n], self._waiting[len(self._waiting) if n is None else n :]
        self._export.write(
            Lines([line for line, _, _ in part], [found for _, found, _ in part], [n for _, _, n in part])
        )
        self.written, self._parts = self.written + len(part), self._parts + 1
        self._known += sum(distribution is not None for _, distribution, _ in part)
        self._last = max([self._last, *(line["round"] for line, _, _ in part[-1:])])

    def _summary(self, seconds: float) -> JsonObject:
        return {
            "model": self._name,
            "output": str(self._export.output),
            "format": self._export.format,
            "rounds": self.written,
            "last_round": self._last,
            "parts": self._parts,
            "missing": self._missing,
            "distributions": self._known,
            "reason": "; ".join(self._distributions.reasons if self._distributions else ()) or None,
            "seconds": round(seconds, 3),
        }


def _sentence(result: JsonMapping) -> str:
    unknown = f" (the others are unknown: {result['reason']})" if result["reason"] else ""
    missing = ", ".join(f"{first:,} to {last:,}" for first, last in result["missing"])
    lost = f"; the log does not have rounds {missing}, and no part has" if missing else ""
    return (
        f"{result['rounds']:,} rounds up to round {result['last_round']:,} written to {result['output']} in "
        f"{counted(result['parts'], 'parts')}; {result['distributions']:,} with their distributions{unknown}{lost}"
    )
