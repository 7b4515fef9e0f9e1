"""`python -m benchmarks.papers`: plays the papers' experiments and writes their tables and figures."""

import os

# Before numpy is loaded: matrices here are small, and cores are for runs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.papers.cli import app

if __name__ == "__main__":
    app()
