"""Replays the log of a model to recompute its distributions."""
