"""The papers' experiments, one command each: `python -m benchmarks.papers --help`, and README.md beside this file."""
