"""`make bench`: prints every figure beside its floor, and fails if one that is asked for is missed."""

import os
import sys

# Before numpy is loaded: matrices here are small, and cores are for workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks import fold, history, http, simulation
from benchmarks.report import print_rows


def main() -> int:
    """Runs all benchmarks; 1 if a ratio is missed."""
    missed = False
    tables = (
        ("Folds, one core", fold.rows),
        ("Simulations, one core", simulation.rows),
        ("HTTP", http.rows),
        ("History is free", history.rows),
    )
    for title, rows in tables:
        measured = rows()
        print_rows(title, measured)
        missed = missed or not all(row.met for row in measured)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
