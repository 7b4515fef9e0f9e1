"""The sections of BENCHMARKS.md, mostly one per file."""
