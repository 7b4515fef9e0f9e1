"""Limits of what a request may hold, which the readers of files check as well."""

MOST_NAME, MOST_TEXT, MOST_DEPTH = 256, 1024, 8
"""Maximum characters of a feature's path and of a string, and maximum objects around a value, the context included."""

LEAST_PROPENSITY = 1e-12
"""A round with a smaller propensity is a mistake: it happens once in 10¹² rounds, and would outweigh all others."""

CLOCK_SECONDS = 300.0
"""By how much the clock of a client may be fast."""
