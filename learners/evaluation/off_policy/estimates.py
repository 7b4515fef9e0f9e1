"""Values, intervals and warnings from the sums of a policy.

With w = π(a|x) / p, the probability of the logged answer under the policy, divided by its propensity, r its reward, and
q the reward model:

- replay keeps a round with probability w / c, where c ≥ 1 is the least power of two that no w exceeds, and averages the
  rewards of those kept: the rejection sampling of Lihong Li, Wei Chu, John Langford, Xuanhui Wang, "Unbiased
  offline evaluation of contextual-bandit-based news article recommendation algorithms", WSDM 2011.
- IPS averages wr: Daniel G. Horvitz, Donovan J. Thompson, JASA 1952.
- clipped IPS averages min(w, clip) r: Edward L. Ionides, "Truncated importance sampling", JCGS 2008.
- SNIPS is Σwr / Σw: Adith Swaminathan, Thorsten Joachims, "The self-normalized estimator for counterfactual learning",
  NIPS 2015.
- the direct method averages Σ_a π(a|x) q(x, a), over the rounds that have a model.
- doubly robust averages Σ_a π(a|x) q(x, a) + w (r - q(x, a)): Miroslav Dudík, John Langford, Lihong Li, "Doubly robust
  policy evaluation and learning", ICML 2011.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from learners.base import FloatArray
from learners.evaluation.intervals import Interval, empirical_bernstein
from learners.evaluation.off_policy.sums import CLIPS, MOMENTS, REPLAY_LEVELS, Settings, Sums

UNBIASED = ("replay", "ips", "doubly_robust")
"""The estimators whose mean is the policy's value, if each of its answers has positive probability in the log."""

_FEW_ROUNDS = 100.0
_DOMINANT = 0.05
_TOLERATED = 0.01


class Estimate(NamedTuple):
    """The value of a policy by one estimator."""

    estimator: str
    value: float | None  # None if the log has no round for the estimator
    interval: Interval | None  # from the bootstrap; None for the direct method, or without replicates
    doubt: str | None = None  # why the value should not be trusted, in a few words


class Abstention(NamedTuple):
    """How often a policy abstains, and what it answers otherwise; all self-normalized, as SNIPS is."""

    rate: float  # the share of abstentions, Σwa / Σw, for a = 1 where the log abstained
    cost: float  # the mean cost of abstaining, per round, Σwa(1 - r) / Σw
    accuracy: Estimate  # the mean reward of the rounds that it answers, Σw(1 - a)r / Σw(1 - a)


class Evaluation(NamedTuple):
    """The evaluation of a policy on a log."""

    estimates: list[Estimate]
    conservative: Interval  # the empirical Bernstein interval of the policy's value; see `conservative_interval`
    rounds: int
    effective_rounds: float  # (Σw)² / Σw²
    largest_weight: float
    mean_weight: float  # near 1 if every answer of the policy can occur in the log
    clipped_share: float  # the share of the rounds whose weight exceeds the clip
    replayed_rounds: int  # the rounds that replay keeps
    warnings: list[str]
    abstention: Abstention | None = None  # None if the policy never abstains


class _Doubt(NamedTuple):
    words: str | None  # for `Estimate.doubt`; None if the estimates stay about right
    warning: str  # the whole sentence
    estimators: tuple[str, ...] = ()  # the estimators that it concerns; () for all


def evaluation_of(sums: Sums, settings: Settings, level: float = 0.95) -> Evaluation:
    """Return a policy's values from the sums over the log, with intervals and warnings about their reliability."""
    rounds, weight = round(sums.moments[0, 0]), float(sums.moments[1, 0])
    squares, clipped = float(sums.shape[0]), float(sums.shape[1])
    kept = sums.replayed[0, _replay_level(sums) :, 0].sum()
    evaluation = Evaluation(
        estimates=[],
        conservative=conservative_interval(sums, level),
        rounds=rounds,
        effective_rounds=weight * weight / squares if squares > 0.0 else 0.0,
        largest_weight=sums.largest,
        mean_weight=weight / max(rounds, 1),
        clipped_share=clipped / max(rounds, 1),
        replayed_rounds=round(float(kept)),
        warnings=[],
        abstention=_abstention(sums, level),
    )
    doubts = list(_doubts(evaluation, sums, settings))
    estimates = [_estimate(name, top, bottom, level, doubts) for name, top, bottom in _ratios(sums)]
    return evaluation._replace(estimates=estimates, warnings=[each.warning for each in doubts])


def _abstention(sums: Sums, level: float) -> Abstention | None:
    row = dict(zip(MOMENTS, sums.moments, strict=True))
    weight, abstained = float(row["weight"][0]), float(row["abstained"][0])
    if abstained <= 0.0:
        return None
    cost = abstained - float(row["weighted"][0] - row["answered_weighted"][0])
    accuracy = _summary("accuracy", _quotient(row["answered_weighted"], row["answered"]), level)
    return Abstention(abstained / weight, cost / weight, accuracy)


def conservative_interval(sums: Sums, level: float = 0.95) -> Interval:
    """Return an interval that covers the value V with at least this probability, for any weights and any overlap.

    For any bound c, V ≥ E[min(w, c) r] and 1 - V ≥ E[min(w, c) (1 - r)], even for answers that never occur in the log.
    The interval intersects the empirical Bernstein bounds of both means for all `CLIPS` at once (a union bound). It
    assumes independent rounds.
    """
    n, each = round(sums.moments[0, 0]), 1.0 - (1.0 - level) / len(CLIPS)
    low, high = 0.0, 1.0
    for clip, (won, lost, won_squares, lost_squares) in zip(CLIPS, sums.clipped.tolist(), strict=True):
        low = max(low, empirical_bernstein(won, won_squares, n, 0.0, clip, each).low)
        high = min(high, 1.0 - empirical_bernstein(lost, lost_squares, n, 0.0, clip, each).low)
    return Interval(low, max(low, high))


def difference(one: Sums, other: Sums, estimator: str, level: float = 0.95) -> Estimate:
    """Return the difference of two policies' values, with a paired interval. Raises `ValueError` for unknown names."""
    pairs = [{name: (top, bottom) for name, top, bottom in _ratios(sums)} for sums in (one, other)]
    if estimator not in pairs[0]:
        raise ValueError(f"estimator must be one of {', '.join(pairs[0])}, not {estimator}")
    first, second = [_quotient(*pair[estimator]) for pair in pairs]
    return _summary(estimator, first - second, level)


def _ratios(sums: Sums) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield, in the order in which to read them, each estimator's name and the rows (B + 1,) whose quotient it is."""
    row = dict(zip(MOMENTS, sums.moments, strict=True))
    kept, paid = sums.replayed[:, _replay_level(sums) :].sum(axis=1)
    none = np.zeros_like(row["rounds"])
    yield "doubly_robust", row["doubly_robust"], row["rounds"] if row["modelled"][0] > 0.0 else none
    yield "snips", row["weighted"], row["weight"]
    yield "ips", row["weighted"], row["rounds"]
    yield "clipped_ips", row["clipped"], row["rounds"]
    yield "replay", paid, kept
    yield "direct", row["direct"], row["modelled"]


def _replay_level(sums: Sums) -> int:
    return min(REPLAY_LEVELS - 1, max(0, math.ceil(math.log2(max(sums.largest, 1.0)))))


def _estimate(name: str, top: FloatArray, bottom: FloatArray, level: float, doubts: Sequence[_Doubt]) -> Estimate:
    found = _summary(name, _quotient(top, bottom), level)
    if name == "direct":
        # The replicates do not vary with the reward model's bias: their interval would nearly always miss the value.
        return found._replace(interval=None, doubt="bias unknown")
    doubt = next((each.words for each in doubts if each.words and name in (each.estimators or (name,))), None)
    if doubt is None and name == "replay" and bottom[0] < _FEW_ROUNDS:
        doubt = f"keeps only {_counted(round(float(bottom[0])))}"
    return found._replace(doubt=doubt)


def _quotient(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.asarray(np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0.0))


def _summary(name: str, values: FloatArray, level: float) -> Estimate:
    """Return the estimate with values[0] as its value and the percentile interval of the replicates, values[1:]."""
    if np.isnan(values[0]):
        return Estimate(name, None, None)
    drawn = values[1:][~np.isnan(values[1:])]
    if not len(drawn):
        return Estimate(name, float(values[0]), None)
    low, high = np.quantile(drawn, [0.5 - level / 2.0, 0.5 + level / 2.0])
    return Estimate(name, float(values[0]), Interval(float(low), float(high)))


def _doubts(evaluation: Evaluation, sums: Sums, settings: Settings) -> Iterator[_Doubt]:
    if evaluation.rounds == 0:
        yield _Doubt("no round", "The log has no round for this policy.")
        return
    yield from _of_overlap(evaluation, sums)
    yield from _of_rounds(evaluation)
    total = sums.moments[1, 0]
    if evaluation.rounds > 1 and evaluation.largest_weight > max(_DOMINANT * total, 1.0):
        share = f"{evaluation.largest_weight / total:.0%}"
        warning = f"One round has {share} of all weight: the value depends on its reward."
        yield _Doubt(f"one round has {share} of the weight", warning)
    if evaluation.clipped_share > _TOLERATED or sums.shape[2] > _TOLERATED * total:
        lost = f"{sums.shape[2] / total:.1%}"
        taken = f"The clip of {settings.clip:g} takes {lost} of the weight away"
        warning = f"{taken}: clipped IPS is too low by up to this share."
        yield _Doubt(f"up to {lost} too low", warning, ("clipped_ips",))


def _of_rounds(evaluation: Evaluation) -> Iterator[_Doubt]:
    if evaluation.rounds < _FEW_ROUNDS:
        few = f"only {_counted(evaluation.rounds)}"
        yield _Doubt(few, f"The log has {few} for this policy. Read the conservative interval.")
    elif 0.0 < evaluation.effective_rounds < _FEW_ROUNDS:
        worth = f"worth only {_counted(round(evaluation.effective_rounds))}"
        warning = (
            f"The log is {worth} of this policy: its answers are too rare in the log. Read the conservative interval."
        )
        yield _Doubt(worth, warning)


def _of_overlap(evaluation: Evaluation, sums: Sums) -> Iterator[_Doubt]:
    certain, n, mean = float(sums.shape[3]), evaluation.rounds, evaluation.mean_weight
    if certain > 0.0 and evaluation.largest_weight != 1.0:
        share = f"{certain / n:.0%} of the answers in the log were certain"
        warning = f"{share} (propensity 1): the log does not show what other answers would have brought there."
        yield _Doubt(share if certain / n > _TOLERATED else None, warning)
    variance = max(0.0, float(sums.shape[0]) / n - mean * mean)
    if abs(mean - 1.0) > 4.0 * math.sqrt(variance / n) + 1e-9:
        rare = "the policy gives answers that the log never gives. Only the conservative interval counts."
        reason = rare if mean < 1.0 else "the propensities are wrong. No estimate can be trusted."
        weight = f"mean weight is {mean:.2f}, not 1"
        yield _Doubt(f"the {weight}", f"The {weight}: {reason}")


def _counted(rounds: int) -> str:
    return f"{rounds} round{'s' * (rounds != 1)}"
