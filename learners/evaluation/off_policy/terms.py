"""The terms of logged rounds for a policy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.policies import Policy
from learners.evaluation.off_policy.reward_model import RewardModel
from learners.evaluation.off_policy.sums import Settings, Sums, Terms, sum_terms


class Evaluated(NamedTuple):
    """A policy, and the rounds on which it is evaluated."""

    policy: Policy
    used: BoolArray | None = None  # (n,); None for all


def terms_of(rounds: LoggedRounds, evaluated: Sequence[Evaluated], model: RewardModel | None = None) -> list[Terms]:
    """Return the terms of each policy for checked rounds; the direct method and doubly robust need a model."""
    nothing = np.zeros(rounds.n)
    predictions, modelled = (None, nothing) if model is None else model.predict(rounds)
    own = nothing if predictions is None else predictions[np.arange(rounds.n), rounds.labels]
    abstained = rounds.abstained.astype(np.float64)
    certain = ((rounds.propensities >= 1.0) & (rounds.counts > 1)).astype(np.float64)
    result = []
    for policy, used in evaluated:
        expected = nothing if predictions is None else policy.expected(rounds, predictions)
        weights = policy.chances(rounds) / rounds.propensities
        among = np.ones(rounds.n) if used is None else used.astype(np.float64)
        result.append(
            Terms(rounds.numbers, weights, rounds.rewards, own, expected, modelled, certain, abstained, among)
        )
    return result


def sums_of(
    rounds: LoggedRounds, evaluated: Sequence[Evaluated], settings: Settings, model: RewardModel | None = None
) -> list[Sums]:
    """Return the sums of each policy; see `terms_of`. A model needs memory for (n, K) predictions: split long parts."""
    return sum_terms(terms_of(rounds, evaluated, model), settings)
