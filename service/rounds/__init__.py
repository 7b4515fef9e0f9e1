"""Predictions, feedback, imports and webhooks, and the model sessions of a worker."""
