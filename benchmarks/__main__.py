"""`make bench`: print every measurement with its baseline, and fail if a required ratio is missed."""

import os
from collections.abc import Sequence
from typing import Annotated

# Set before numpy loads: the matrices are small, and workers need the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer

from benchmarks import answers
from benchmarks.record import far_off, page, written
from benchmarks.report import Row, print_rows
from benchmarks.sections import SECTIONS


def main(
    sections: Annotated[list[str] | None, typer.Argument(help=", ".join(SECTIONS) + "; all if empty.")] = None,
    quick: Annotated[bool, typer.Option(help="Run the one-minute versions of the sections that have one.")] = False,
    long: Annotated[
        bool, typer.Option(help="Run larger sizes, minutes longer: a history of ten million rounds.")
    ] = False,
    write: Annotated[bool, typer.Option(help="Write the tables to benchmarks/results, and BENCHMARKS.md.")] = False,
    compare: Annotated[bool, typer.Option(help="Fail if a ratio is far from the one in benchmarks/results.")] = False,
) -> None:
    """Run benchmarks. Exit with 1 if a required ratio is missed, or with --compare if a ratio is far off."""
    unknown = set(sections or ()) - SECTIONS.keys()
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(SECTIONS)}")
    if quick and write:
        raise typer.BadParameter("--quick is not accurate enough for --write")
    if quick and long:
        raise typer.BadParameter("--quick and --long cannot be combined")
    fine = True
    for name in sections or SECTIONS:
        rows = _measured(name, quick, long)
        if write:
            page(name).write_text(written(page(name).read_text(), name, rows))
            answers.write()
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
    far = far_off(page(name).read_text(), name, rows)
    for line in far:
        typer.echo(f"far off: {line}", err=True)
    return not far


if __name__ == "__main__":
    typer.run(main)
