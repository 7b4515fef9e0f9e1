"""Predicts and records feedback, with the model sessions of a worker."""
