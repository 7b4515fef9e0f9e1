"""Sentences about wrong values: the value given, and the values allowed."""
