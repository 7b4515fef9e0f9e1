"""Replays the log of a model to recompute distributions."""
