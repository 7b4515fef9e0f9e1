"""Estimates and verdicts from the statistics of models, and evaluations of their logs."""
