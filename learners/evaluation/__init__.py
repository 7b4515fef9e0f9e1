"""Evaluation of learners on labelled data, and of any policy on a log."""
