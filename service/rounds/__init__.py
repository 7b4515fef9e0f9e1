"""Predictions, feedback, and the model sessions of a worker."""
