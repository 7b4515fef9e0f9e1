"""Checks whether rounds can be weighted by the inverse of their propensity."""

from learners.base import BoolArray, FloatArray

_LEAST = 1e-150  # For a smaller propensity p, sums of 1/p² overflow. Rankings of many items can be that improbable.


def weighable(propensities: FloatArray) -> BoolArray:
    """Return whether each of n propensities is large enough to weight its round, (n,)."""
    return propensities > _LEAST
