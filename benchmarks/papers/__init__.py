"""The papers' experiments, one command each: see README.md in this folder and `python -m benchmarks.papers --help`."""
