"""Policies to evaluate: their distributions over the answers of each logged round."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from learners.base import FloatArray
from learners.evaluation.off_policy.logged import LoggedRounds


class Policy(Protocol):
    """A policy over the labels of each round."""

    def chances(self, rounds: LoggedRounds) -> FloatArray:
        """Return the policy's probability of the logged answer of each round, (n,)."""

    def expected(self, rounds: LoggedRounds, rewards: FloatArray, /) -> FloatArray:
        """Return the mean of predicted rewards (n, K) over the policy's answers, (n,)."""


@dataclass(frozen=True)
class Served(Policy):
    """The policy that created the log: every weight is 1."""

    def chances(self, rounds: LoggedRounds) -> FloatArray:
        return rounds.propensities

    def expected(self, rounds: LoggedRounds, rewards: FloatArray) -> FloatArray:
        return np.asarray(rewards[np.arange(rounds.n), rounds.labels])  # a sample of it: the log lacks the distribution


@dataclass(frozen=True)
class UniformChoice(Policy):
    """Answers each eligible label with the same probability."""

    def chances(self, rounds: LoggedRounds) -> FloatArray:
        return np.asarray(1.0 / rounds.counts)

    def expected(self, rounds: LoggedRounds, rewards: FloatArray) -> FloatArray:
        if rounds.eligible.shape[1] == 0:
            return np.asarray(rewards.mean(axis=1))
        return np.asarray((rewards * rounds.eligible).sum(axis=1) / rounds.counts)


@dataclass(frozen=True)
class ConstantLabel(Policy):
    """Always answers the same label; where that label is not eligible, each eligible one with the same probability."""

    label: int  # 0 … K-1

    def chances(self, rounds: LoggedRounds) -> FloatArray:
        same: FloatArray = (rounds.labels == self.label).astype(np.float64)
        if rounds.eligible.shape[1] == 0:
            return same
        return np.where(rounds.eligible[:, self.label], same, 1.0 / rounds.counts)

    def expected(self, rounds: LoggedRounds, rewards: FloatArray) -> FloatArray:
        own: FloatArray = rewards[:, self.label]
        if rounds.eligible.shape[1] == 0:
            return own
        return np.where(rounds.eligible[:, self.label], own, UniformChoice().expected(rounds, rewards))


@dataclass(frozen=True)
class GivenDistributions(Policy):
    """A distribution for each round."""

    distributions: FloatArray  # (n, K), rows sum to 1

    def chances(self, rounds: LoggedRounds) -> FloatArray:
        return np.asarray(self.distributions[np.arange(rounds.n), rounds.labels])

    def expected(self, _rounds: LoggedRounds, rewards: FloatArray) -> FloatArray:
        return np.asarray((self.distributions * rewards).sum(axis=1))


@dataclass(frozen=True)
class GivenChances(Policy):
    """The probability of the logged answer of each round, for evaluation without a reward model."""

    given: FloatArray  # (n,)

    def chances(self, _rounds: LoggedRounds) -> FloatArray:
        return self.given

    def expected(self, _rounds: LoggedRounds, _rewards: FloatArray) -> FloatArray:
        return np.zeros(len(self.given))
