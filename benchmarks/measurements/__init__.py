"""The sections of benchmarks/results, mostly one per file."""
