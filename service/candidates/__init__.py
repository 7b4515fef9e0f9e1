"""Predictions of models with actions: candidates are read, joined with the context, and one of them is drawn."""
