"""Benchmarks of models with actions."""
