"""The progress of commands that treat one model after the other."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import typer

_Item = TypeVar("_Item")


def with_progress(items: Sequence[_Item], name_of: Callable[[_Item], str]) -> Iterator[_Item]:
    """Yield the items; show a progress bar on standard error, or a line for each if it is no terminal.

    Args:
        items: a model each.
        name_of: returns the model's name.
    """
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
