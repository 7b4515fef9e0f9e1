"""Shadows of a model: other learners that fold the same rounds, and their comparison with the served answers."""
