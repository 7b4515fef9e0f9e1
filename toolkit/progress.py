"""Progress of long commands."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeVar

import typer

_Item = TypeVar("_Item")


def with_progress(items: Sequence[_Item], name_of: Callable[[_Item], str]) -> Iterator[_Item]:
    """Yield the items; show a progress bar on standard error, or a line for each if it is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        for number, item in enumerate(items, 1):
            typer.echo(f"{number} of {len(items)}: {name_of(item)}", err=True)
            yield item
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=len(items))
        for item in items:
            bar.update(task, description=name_of(item))
            yield item
            bar.advance(task)


class Progress:
    """A progress bar with the throughput, on standard error, if that is a terminal."""

    def __init__(self, what: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = [TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}")]
        console = Console(file=sys.stderr)
        self._bar = Bar(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task(what, total=total, pace="")
        self._began, self._done = time.monotonic(), 0

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it is."""
        self._bar.stop()

    def advance(self, rounds: int) -> None:
        """Count rounds."""
        self._done += rounds
        pace = self._done / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, advance=rounds, pace=f"{pace:,.0f} rounds/s")
