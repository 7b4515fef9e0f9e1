"""One row of the tables that benchmarks print."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

HEADER = ("what", "measured", "beside it, same run", "ratio", "wanted", "")


class Row(NamedTuple):
    """A figure beside its floor or its peer, and the ratio that is asked for."""

    what: str
    figure: str
    floor: str
    ratio: float  # NaN where nothing stands beside the figure
    wanted: str  # empty where nothing is asked for
    met: bool
    travels: bool = True  # to other machines: False where what stands beside was not measured in the same run

    @property
    def cells(self) -> tuple[str, ...]:
        """As it is printed, in the columns of HEADER."""
        ratio = "–" if math.isnan(self.ratio) else f"{self.ratio:.2f}"
        verdict = "" if not self.wanted else "ok" if self.met else "MISSED"
        return self.what, self.figure, self.floor, ratio, self.wanted, verdict


def print_rows(title: str, rows: Iterable[Row]) -> None:
    """Prints rows as a table."""
    table = Table(*HEADER, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row.cells)
    Console(width=160).print(table)


def markdown(rows: Iterable[Row]) -> str:
    """Rows as a table in Markdown."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def at_least(what: str, figure: float, floor: float, unit: str, wanted: float) -> Row:
    """A rate that is to reach a share of its floor's."""
    ratio = figure / floor
    return Row(what, f"{figure:,.0f} {unit}", f"{floor:,.0f} {unit}", ratio, f"≥ {wanted:g}", ratio >= wanted)


def at_most(what: str, figure: float, floor: float, unit: str, wanted: float) -> Row:
    """A time or a size that is to stay within a multiple of its floor."""
    ratio = figure / floor
    return Row(what, f"{figure:,.2f} {unit}", f"{floor:,.2f} {unit}", ratio, f"≤ {wanted:g}", ratio <= wanted)


def of_goal(what: str, figure: float, goal: float, unit: str) -> Row:
    """A rate beside the one that is asked for, on whatever machine."""
    return at_least(what, figure, goal, unit, 1.0)._replace(travels=False)


def seen(what: str, figure: str, beside: str = "", ratio: float = math.nan) -> Row:
    """A figure of which nothing is asked."""
    return Row(what, figure, beside, ratio, "", True)
