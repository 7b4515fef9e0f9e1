"""Learners of actions: each round brings its own candidates, and each candidate its own features."""
