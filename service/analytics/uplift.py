"""The comparison of the served answers with the holdout's: its interval, its odds, and whether it can be trusted.

Every formula is for independent rewards of 0 or 1. Rounds with other rewards count as the number of such rounds that
gives their mean the same variance: n m (1 - m) / v, for n rounds with the mean m and the variance v. The answers to one
request are not independent, so this number is divided by the design effect: Leslie Kish, "Survey Sampling", 1965.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from learners.evaluation.intervals import Interval, wilson
from service.analytics.estimates import LEVEL, Subject, metric_name, metric_of, observed
from service.replicas.statistics import RoundStatistics
from service.replicas.uplift_sums import ArmSums, UpliftSums
from service.schemas.models import RewardMeaning
from service.schemas.statistics import DifferenceAnswer, MeanAnswer, SampleRatioAnswer, UpliftAnswer

LEAST_ROUNDS = 100  # of each arm; with fewer, the sentence says that it is too early
ALARM = 0.001  # a smaller p-value of the sample ratio is an alarm
_SUREST = 0.9999  # the largest probability stated: the assumptions are not surer
_MARGIN = 9.0  # one more round with thrice the quadratic mean of the rewards
_OF_STUDENT = 2.4  # over ν: the square of Student's quantile divided by the normal one's, for ν degrees of freedom
_ROUNDING = 1e-9  # a smaller variance, relative to the square of the mean, is rounding


class Arm(NamedTuple):
    """The rounds of one arm, expressed in rounds with a reward of 0 or 1."""

    mean: float
    rounds: float

    @property
    def interval(self) -> Interval:
        """Wilson's score interval of the mean."""
        return wilson(min(self.mean * self.rounds, self.rounds), self.rounds, LEVEL)


def design_effect(sums: ArmSums) -> float:
    """Return the variance of an arm's mean, divided by that of as many independent rounds; at least one round.

    It is from 1 to m, the most answers to a request: the variance of m rewards' sum is at most m times the sum of their
    variances, as if they were equal. It is 1 if each request has one answer, and m if no variance is known.
    """
    mean = sums.reward / sums.rounds
    rounds = np.array(sums.group_rounds)
    groups, independent = int((rounds > 0.0).sum()), sums.squares - sums.rounds * mean * mean
    if groups < 2 or independent <= _ROUNDING * sums.squares:
        return float(sums.slots)
    among = float(((np.array(sums.group_rewards) - mean * rounds) ** 2).sum()) * groups / (groups - 1)
    estimated = among / independent * (1.0 + _OF_STUDENT / (groups - 1))
    return min(float(sums.slots), max(1.0, estimated))


def arm_of(sums: ArmSums) -> Arm:
    """Return an arm with at least one round.

    The variance has a margin for rare large rewards, which few rounds may not have seen. It grows with the rewards'
    scale, and vanishes with the number of rounds.
    """
    mean, rounds = min(1.0, sums.reward / sums.rounds), sums.rounds / design_effect(sums)
    variance = sums.squares / sums.rounds * (1.0 + _MARGIN / rounds) - mean * mean
    is_known = variance > _ROUNDING * mean * mean  # else the rewards are equal, or tell no more than those of 0 or 1
    return Arm(mean, max(rounds, rounds * mean * (1.0 - mean) / variance) if is_known else rounds)


def difference_of(served: Arm, holdout: Arm) -> Interval:
    """Return the hybrid score interval of the difference of two means.

    Robert G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics in Medicine
    1998, method 10.
    """
    (low, high), (least, most) = served.interval, holdout.interval
    difference = served.mean - holdout.mean
    return Interval(
        difference - math.hypot(served.mean - low, most - holdout.mean),
        difference + math.hypot(high - served.mean, holdout.mean - least),
    )


def ratio_of(served: Arm, holdout: Arm) -> Interval:
    """Return the interval of the ratio of two means, of which the holdout's is above 0.

    Allan Donner, G. Y. Zou, "Closed-form confidence intervals for functions of the normal mean and standard deviation",
    Statistical Methods in Medical Research 2012. Each end r solves (m - r h)² = (m - its end)² + r² (h - its end)². So
    the interval has 1 if and only if that of the difference has 0. The upper end may be infinite.
    """
    m, h = served.mean, holdout.mean
    (low, high), (least, most) = served.interval, holdout.interval
    a, b, c = most * (2.0 * h - most), m * h, low * (2.0 * m - low)
    lower = c / (b + math.sqrt(max(0.0, b * b - a * c))) if c > 0.0 else 0.0
    a, c = least * (2.0 * h - least), high * (2.0 * m - high)
    upper = (b + math.sqrt(max(0.0, b * b - a * c))) / a if a > 0.0 else math.inf
    return Interval(lower, upper)


def chance_better(served: ArmSums, holdout: ArmSums) -> float | None:
    """Return the probability that the served mean exceeds the holdout's; None if all rewards are equal.

    It is the normal approximation with the variance of all rewards together, as in the score test of equal means.
    Without a difference, it is 1/2 on average if each arm can expect a few rewards; a prior would favour one arm.
    """
    rounds = served.rounds + holdout.rounds
    mean = (served.reward + holdout.reward) / rounds
    variance = (served.squares + holdout.squares) / rounds - mean * mean
    if variance <= _ROUNDING * mean * mean:
        return None
    difference = served.reward / served.rounds - holdout.reward / holdout.rounds
    deviation = math.sqrt(variance * sum(design_effect(arm) / arm.rounds for arm in (served, holdout)))
    return min(_SUREST, max(1.0 - _SUREST, NormalDist().cdf(difference / deviation)))


def sample_ratio_p(held: int, requests: int, share: float) -> float:
    """Return the p-value of a number of held-out requests, of which each was held out with probability `share`.

    It is the inverse of the likelihood ratio of a uniform mixture of shares, so it holds at every look, without a
    correction: Michael Lindon, Alan Malek, "Anytime-valid inference for multinomial count data", NeurIPS 2022.
    """
    others = requests - held
    mixture = math.lgamma(held + 1.0) + math.lgamma(others + 1.0) - math.lgamma(requests + 2.0)
    return math.exp(min(0.0, held * math.log(share) + others * math.log1p(-share) - mixture))


def uplift_of(subject: Subject, statistics: RoundStatistics) -> UpliftAnswer | None:
    """Return the comparison of a model with its holdout; None without a holdout, or without a round that counts."""
    sums = statistics.uplift
    if subject.holdout_since != sums.since_change or not sums.served.rounds + sums.holdout.rounds:
        return None  # also while no round after a change of the holdout has been counted
    answer = UpliftAnswer(
        since_round=sums.since_round,
        served=_mean(sums.served),
        holdout=_mean(sums.holdout),
        difference=None,
        relative=None,
        chance_better=None,
        sentence="",
        sample_ratio=_sample_ratio(subject, sums),
    )
    if subject.silence == "on_arrival" and not (sums.served.expired and sums.holdout.expired):
        answer.sentence = _TOO_SILENT
        return answer
    if sums.served.rounds and sums.holdout.rounds:
        _compare(answer, sums)
    answer.sentence = _sentence(answer, metric_name(subject, statistics), metric_of(subject, statistics))
    if subject.silence == "on_arrival":
        answer.sentence = f"{answer.sentence} {_AHEAD}"
    return answer


def _compare(answer: UpliftAnswer, sums: UpliftSums) -> None:
    served, holdout = arm_of(sums.served), arm_of(sums.holdout)
    low, high = difference_of(served, holdout)
    answer.difference = DifferenceAnswer(value=served.mean - holdout.mean, low=low, high=high)
    answer.chance_better = chance_better(sums.served, sums.holdout)
    if holdout.mean > 0.0:
        low, high = ratio_of(served, holdout)
        value, most = served.mean / holdout.mean - 1.0, high - 1.0 if math.isfinite(high) else None
        answer.relative = DifferenceAnswer(value=value, low=low - 1.0, high=most)


def _mean(sums: ArmSums) -> MeanAnswer:
    """Return the mean with the interval of as many independent rounds as give it its variance."""
    n = max(1, round(sums.rounds / design_effect(sums))) if sums.rounds else 0
    share = n / max(sums.rounds, 1)
    found = observed(n, share * sums.reward, share * sums.squares)
    return MeanAnswer(**found._replace(rounds=sums.rounds)._asdict())


def _sample_ratio(subject: Subject, sums: UpliftSums) -> SampleRatioAnswer:
    held, requests = sums.holdout.requests, sums.served.requests + sums.holdout.requests
    p_value = sample_ratio_p(held, requests, sums.share)
    return SampleRatioAnswer(
        expected=sums.share,
        observed=held / requests if requests else None,
        p_value=p_value,
        ok=p_value >= ALARM,
        note=None if p_value >= ALARM else f"{_CAUSES[subject.silence]} {_REMEDY}",
    )


_CAUSES = {
    "drop": "Predictions without feedback make no round: feedback of one arm may be lost, or more frequent.",
    "on_arrival": "Feedback counts at once, but silence only when its window closes: until then, an arm with more "
    "feedback has more rounds.",
    "at_window_close": "Predictions of one arm may be lost, or never activated.",
}
_REMEDY = "A change of the holdout starts a new comparison."
_TOO_SILENT = (
    "It is too early to tell: silence counts only when its window closes, and has not counted in both arms yet."
)
_AHEAD = "Feedback counts before silence does, so both means are too high until most windows have closed."


def _sentence(answer: UpliftAnswer, name: str, metric: RewardMeaning) -> str:
    ratio, difference, chance = answer.sample_ratio, answer.difference, answer.chance_better
    if not ratio.ok:
        return (
            f"The comparison cannot be trusted: the holdout has {_percent(ratio.observed or 0.0)} of the counted "
            f"requests, instead of {_percent(ratio.expected)}."
        )
    fewest = min(answer.served.rounds, answer.holdout.rounds)
    if difference is None or fewest < LEAST_ROUNDS:
        least = "the holdout" if answer.holdout.rounds == fewest else "the model"
        return f"It is too early to tell: {least} has {fewest:.0f} rounds here, and a comparison needs {LEAST_ROUNDS}."
    if chance is None:
        return "The model and the holdout earn the same: all counted rounds have the same reward."
    odds = f"the chance that it is better is {_odds(chance)}."
    if answer.relative is None or answer.relative.high is None:
        value, interval = _in_points(difference, metric)
    else:
        value = _percent(abs(answer.relative.value))
        interval = f"{_percent(answer.relative.low)} to {_percent(answer.relative.high)}"
    if difference.low <= 0.0 <= (difference.high or 0.0):
        return f"The {name} may be higher or lower than the holdout's (95 % interval {interval}); {odds}"
    word = "higher" if difference.value > 0.0 else "lower"
    return f"The {name} is {value} {word} than the holdout's (95 % interval {interval}); {odds}"


def _in_points(difference: DifferenceAnswer, metric: RewardMeaning) -> tuple[str, str]:
    """Return an absolute difference, and its interval, in words."""
    scale, unit = (1.0, "") if metric == "value" else (100.0, " percentage points")
    value, low, high = [scale * each for each in (abs(difference.value), difference.low, difference.high or 0.0)]
    return f"{value:.3g}{unit}", f"{low:.3g} to {high:.3g}{unit}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _odds(chance: float) -> str:
    if chance > 0.9994:
        return "more than 99.9 %"
    return "less than 0.1 %" if chance < 0.0006 else _percent(chance)
