"""Sentences about invalid values: the value given, and the values allowed."""
