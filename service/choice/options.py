"""Checks of what a request asks besides the context: eligible candidates, a baseline, a policy, slots."""

_SUM_TOLERANCE = 1e-9
