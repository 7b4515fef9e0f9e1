"""One file per section of BENCHMARKS.md."""
