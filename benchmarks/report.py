"""One row of the table that a benchmark prints."""

from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Row(NamedTuple):
    """A figure beside its floor, and the ratio that is asked for."""

    what: str
    figure: str
    floor: str
    ratio: float
    wanted: str
    met: bool


def print_rows(title: str, rows: Iterable[Row]) -> None:
    """Prints rows as a table."""
    table = Table("what", "measured", "floor, same run", "ratio", "wanted", "", title=title, title_justify="left")
    for row in rows:
        table.add_row(row.what, row.figure, row.floor, f"{row.ratio:.2f}", row.wanted, "ok" if row.met else "MISSED")
    Console(width=140).print(table)


def at_least(what: str, figure: float, floor: float, unit: str, wanted: float) -> Row:
    """A rate that is to reach a share of its floor's."""
    ratio = figure / floor
    return Row(what, f"{figure:,.0f} {unit}", f"{floor:,.0f} {unit}", ratio, f"≥ {wanted:g}", ratio >= wanted)


def at_most(what: str, figure: float, floor: float, unit: str, wanted: float) -> Row:
    """A time that is to stay within a multiple of its floor."""
    ratio = figure / floor
    return Row(what, f"{figure:,.2f} {unit}", f"{floor:,.2f} {unit}", ratio, f"≤ {wanted:g}", ratio <= wanted)
