"""Shadows of a model: other learners that fold the same rounds, and the comparison with what the model answered."""
