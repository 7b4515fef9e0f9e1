"""`make bench`: prints every figure beside its floor or its peer, and fails if a ratio that is asked for is missed."""

import os
from collections.abc import Sequence
from typing import Annotated

# Before numpy is loaded: matrices here are small, and cores are for workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer

from benchmarks.record import FILE, far_off, written
from benchmarks.report import Row, print_rows
from benchmarks.sections import SECTIONS


def main(
    sections: Annotated[list[str] | None, typer.Argument(help=", ".join(SECTIONS) + "; all if none.")] = None,
    quick: Annotated[bool, typer.Option(help="A look of a minute, at the sections that have one.")] = False,
    long: Annotated[bool, typer.Option(help="Sizes that take minutes more: history of ten million rounds.")] = False,
    write: Annotated[bool, typer.Option(help="Keep the tables in BENCHMARKS.md.")] = False,
    compare: Annotated[bool, typer.Option(help="Fail where a ratio is far from that in BENCHMARKS.md.")] = False,
) -> None:
    """Runs benchmarks; exit code 1 if a ratio is missed, or with --compare far from the last table's."""
    unknown = set(sections or ()) - SECTIONS.keys()
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: none of {', '.join(SECTIONS)}")
    if quick and write:
        raise typer.BadParameter("a quick look is not exact enough to be kept")
    if quick and long:
        raise typer.BadParameter("a look is either quick or long")
    fine = True
    for name in sections or SECTIONS:
        rows = _measured(name, quick, long)
        if write:
            FILE.write_text(written(FILE.read_text(), name, rows))
        fine &= _as_before(name, rows) if compare else all(row.met for row in rows)
    raise typer.Exit(0 if fine else 1)


def _measured(name: str, quick: bool, long: bool) -> Sequence[Row]:
    section = SECTIONS[name]
    measure = section.quick if quick else (section.long or section.rows) if long else section.rows
    if measure is None:
        return []
    rows = measure()
    print_rows(f"{section.title}: python -m benchmarks {name}", rows)
    return rows


def _as_before(name: str, rows: Sequence[Row]) -> bool:
    far = far_off(FILE.read_text(), name, rows)
    for line in far:
        typer.echo(f"far off: {line}", err=True)
    return not far


if __name__ == "__main__":
    typer.run(main)
