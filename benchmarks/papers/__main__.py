"""`python -m benchmarks.papers`: play the papers' experiments and write their tables and figures."""

import os

# Set before numpy loads: the matrices are small, and runs need the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.papers.cli import app

if __name__ == "__main__":
    app()
