"""Exponential forgetting of sums, by a half-life in rounds.

Sums of squared gradients that forget keep the steps large, so that weights follow a world that drifts. A row's sums
are discounted when a context next has its feature, for all rounds since: the cost does not grow with the rows.
"""

import math
from typing import Annotated, TypeAlias

import pydantic

from learners.base import FloatArray, IntArray
from learners.kernels import compiled

HalfLife: TypeAlias = Annotated[
    float | None,
    pydantic.Field(
        ge=10,
        le=1e12,
        description="Rounds after which a round counts half in the sums that set step sizes, and in reward rates: for "
        "data that drift slowly. Null never forgets.",
    ),
]


def discount(half_life_rounds: float | None) -> float:
    """Return the factor that one round multiplies the sums by; 1 if nothing is forgotten."""
    return 1.0 if half_life_rounds is None else 2.0 ** (-1.0 / half_life_rounds)


@compiled
def forget_rows(factor: float, rounds: int, latest: IntArray, indices: IntArray, sums: FloatArray) -> None:
    """Discount the rows of sums (R, K) for the rounds since `latest` (R,), the last round with each row's feature."""
    elapsed, discounted = 0, 1.0
    for i in indices:
        since = max(0, rounds - latest[i])  # only a corrupt state has a later round
        if since != elapsed:  # usually the same for all rows
            elapsed = since
            discounted = math.exp(math.log(factor) * elapsed)
        for k in range(sums.shape[1]):
            sums[i, k] *= discounted
