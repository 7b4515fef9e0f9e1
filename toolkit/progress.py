"""Progress of long commands, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

_Item = TypeVar("_Item")


class Progress:
    """A progress bar or, if standard error is not a terminal, a line at each tenth of `total`, unless that is None."""

    def __init__(self, what: str, total: int | None, unit: str = "rounds") -> None:
        console = Console(file=sys.stderr)
        columns = [TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}", markup=False)]
        self.is_shown = console.is_terminal
        self._bar = Bar(*columns, TimeElapsedColumn(), console=console, disable=not self.is_shown)
        self._task = self._bar.add_task(what, total=total, text="")
        self._began, self._done, self._tenths = time.monotonic(), 0, -1
        self._what, self._total, self._unit = what, total, unit

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, n: int) -> None:
        """Count `n` more units as done; `n` may be 0."""
        self._done += n
        seconds = time.monotonic() - self._began
        pace = self._done / max(seconds, 1e-9)
        self._bar.update(self._task, advance=n, text=f"{pace:,.0f} {self._unit}/s" if pace >= 1.0 else "")
        if not self.is_shown and self._total and (tenths := 10 * self._done // self._total) > self._tenths:
            self._tenths, counted = tenths, f"{self._done:,} of {self._total:,} {self._unit}"
            typer.echo(f"{self._what}: {counted}, {seconds:,.0f} s", err=True)

    def begin(self, name: str) -> None:
        """Show the name of the next item."""
        self._bar.update(self._task, text=name)

    def end(self) -> None:
        """Count one item as done."""
        self._bar.advance(self._task)


def with_progress(items: Sequence[_Item], name_of: Callable[[_Item], str]) -> Iterator[_Item]:
    """Yield the items; show a progress bar, or a line for each item if standard error is not a terminal."""
    with Progress("", len(items)) as progress:
        for number, item in enumerate(items, 1):
            if not progress.is_shown:
                typer.echo(f"{number} of {len(items)}: {name_of(item)}", err=True)
            progress.begin(name_of(item))
            yield item
            progress.end()
