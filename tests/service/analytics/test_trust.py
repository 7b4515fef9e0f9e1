"""The laws of trust: one word and one sentence about the value of a policy, which agree with the doubts about it."""

import numpy as np
import pytest

from learners.base import every_label
from learners.evaluation.off_policy.estimates import evaluation_of
from learners.evaluation.off_policy.logged import LoggedRounds, no_contexts
from learners.evaluation.off_policy.policies import GivenChances, Policy, Served, UniformChoice
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated, sums_of
from service.analytics.trust import Trust, trust_of

SETTINGS = Settings(1, 200, 10.0)


def log_of(n: int, propensity: float, labels: int = 2) -> LoggedRounds:
    """Return a log that answers label 0 with this probability, and the others equally often."""
    rng = np.random.default_rng(2)
    drawn = np.where(rng.random(n) < propensity, 0, rng.integers(1, labels, n))
    p = np.where(drawn == 0, propensity, (1.0 - propensity) / (labels - 1)).astype(np.float64)
    return LoggedRounds(
        np.arange(1, n + 1), drawn, p, (rng.random(n) < 0.3).astype(np.float64), every_label(n), np.full(n, labels),
        np.zeros(n, np.bool_), np.full(n, -1), no_contexts(n),
    )  # fmt: skip


def judged(log: LoggedRounds, policy: Policy) -> Trust:
    return trust_of(evaluation_of(sums_of(log, [Evaluated(policy)], SETTINGS)[0], SETTINGS))


def always(log: LoggedRounds, label: int) -> GivenChances:
    return GivenChances((log.labels == label) * 1.0)


def test_no_round_is_no_trust() -> None:
    assert judged(log_of(0, 0.5), Served()) == ("no", "The log has no round for this policy.")


@pytest.mark.parametrize(("n", "word", "reason"), [
    (5, "no", "Only 5 rounds: only the conservative interval counts."),
    (60, "care", "Only 60 rounds: read the conservative interval as well."),
    (2_000, "yes", "The log is worth 2,000 rounds of this policy."),
])  # fmt: skip
def test_the_served_policy_needs_rounds(n: int, word: str, reason: str) -> None:
    assert judged(log_of(n, 0.5), Served()) == (word, reason)


def test_a_log_that_explores_tells_about_uniform_draws() -> None:
    assert judged(log_of(3_000, 0.7), UniformChoice()).word == "yes"


def test_a_policy_that_the_log_seldom_follows_needs_care() -> None:
    found = judged(log_of(4_000, 0.99), always(log_of(4_000, 0.99), 1))
    assert (found.word, "Worth only" in found.reason) == ("care", True)


def test_answers_that_the_log_never_gives_are_no_trust() -> None:
    log = log_of(3_000, 0.5)._replace(counts=np.full(3_000, 4))
    found = judged(log, UniformChoice())
    assert (found.word, "mean weight is 0.5" in found.reason) == ("no", True)


def test_wrong_propensities_are_no_trust() -> None:
    log = log_of(3_000, 0.5)
    found = judged(log._replace(propensities=log.propensities / 2), UniformChoice())
    assert (found.word, "the propensities are wrong" in found.reason) == ("no", True)


def test_a_first_doubt_does_not_hide_the_mean_weight() -> None:
    """A third of the answers were certain, which is the first doubt. The word depends on the weights alone."""
    log = log_of(3_000, 0.5)
    log.propensities[::3] = 1.0
    found = judged(log, always(log, 1))
    assert (found.word, "mean weight is 0.8" in found.reason) == ("no", True)


@pytest.mark.parametrize(("rate", "which"), [(0.01, "with"), (0.99, "without")])
def test_few_rewards_need_care(rate: float, which: str) -> None:
    """A log of 2,000 rounds with about 20 rewards, or all but 20: a bootstrap of so few is too narrow."""
    rewards = (np.random.default_rng(3).random(6_000) < rate).astype(np.float64)
    found = judged(log_of(2_000, 0.5)._replace(rewards=rewards[:2_000]), Served())
    assert (found.word, f"rounds {which} a reward" in found.reason) == ("care", True)
    assert judged(log_of(6_000, 0.5)._replace(rewards=rewards), Served()).word == "yes"


def test_one_round_with_most_of_the_weight_is_no_trust() -> None:
    log = log_of(3_000, 0.5)
    log.propensities[7] = 1e-5
    assert judged(log, UniformChoice()).word == "no"
