"""Evaluation of learners on labelled data."""
