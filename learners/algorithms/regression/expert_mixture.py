"""A mixture of experts whose weights follow the log loss, and which can recover: the fixed share.

Mark Herbster, Manfred Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998. The log loss of the mixture
exceeds that of the best expert of each stretch of rounds: over T rounds with m changes of the best of n experts, by at
most (m + 1) ln n + m ln (1/α) + (T - m - 1) ln (1/(1 - α)), for the share α.
"""

import math

from learners.base import FloatArray
from learners.kernels import compiled

SHARE = 0.001  # α, the part of the weights that each round divides among all experts
ABSENT = math.inf  # the loss of an expert that takes no part in a round
LEAST_WEIGHT = 0.01  # experts with a smaller weight are left out of predictions, which saves time


@compiled
def reweigh(weights: FloatArray, losses: FloatArray) -> None:
    """Update the weights (n,) by the experts' log losses in a round, in nats; absent experts get weight 0.

    Weights sum to 1. At least one expert must be present; one that was absent before begins with its share.
    """
    least, present, total = math.inf, 0, 0.0
    for e in range(len(weights)):
        if losses[e] < ABSENT:
            present += 1
            least = min(least, losses[e])
    for e in range(len(weights)):
        weights[e] *= math.exp(least - losses[e])
        total += weights[e]
    for e in range(len(weights)):
        if losses[e] < ABSENT:
            kept = (1.0 - SHARE) * weights[e] / total if total > 0.0 else (1.0 - SHARE) / present
            weights[e] = kept + SHARE / present
