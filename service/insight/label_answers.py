"""The labels of a model with their rewards and values, for clients."""

from service.insight.estimates import Estimate, label_reward, label_value
from service.insight.subject import Subject
from service.replicas.statistics import RoundStatistics
from service.replicas.sums.label_sums import MOST_LABELS
from service.replicas.sums.latest_rounds import Epoch, joined
from service.schemas.reports.statistics import LabelAnswer, MeanAnswer, OtherLabelsAnswer

LEAST_EVIDENCE = 10.0
"""Effective rounds from which the value of a label may be called the best."""

_ACTIONS = (
    "The answers are ids of actions, which requests bring. Their number is not bounded, and the service counts none of "
    "them individually."
)
_SEVERAL = "The answers are sets or rankings of labels, whose number is not bounded. They are not counted individually."


def label_answers(subject: Subject, statistics: RoundStatistics) -> list[LabelAnswer] | None:
    """Return the labels that are counted individually; None for answers that are not one of K labels."""
    if statistics.labels is None:
        return None
    latest, total = joined(statistics.latest), sum(statistics.by_label.rounds)
    known = range(min(statistics.labels, MOST_LABELS))
    return [_label_answer(subject, statistics, k, (total, latest)) for k in known]


def best_label(subject: Subject, statistics: RoundStatistics) -> str | None:
    """Return the active label with the largest value, among those with enough evidence."""
    known = range(min(statistics.labels or 0, MOST_LABELS))
    values = {k: _value(subject, statistics, k) for k in known if k not in statistics.retired}
    means = {k: value.mean for k, value in values.items() if value.mean is not None and value.rounds >= LEAST_EVIDENCE}
    return subject.name_of(max(means, key=means.__getitem__)) if means else None


def other_labels(statistics: RoundStatistics) -> OtherLabelsAnswer | None:
    """Return the labels that are not counted individually, together; None if there are none."""
    sums, latest = statistics.by_label, joined(statistics.latest)
    if statistics.labels is None or statistics.labels <= MOST_LABELS:
        return None
    return OtherLabelsAnswer(
        labels=statistics.labels - MOST_LABELS,
        rounds=_at(sums.rounds, MOST_LABELS),
        share=_at(sums.rounds, MOST_LABELS) / max(1, sum(sums.rounds)),
        latest_share=_at(latest.labels, MOST_LABELS) / max(1, sum(latest.labels)),
        reward=_mean(label_reward(sums, MOST_LABELS)),
    )


def labels_note(subject: Subject, statistics: RoundStatistics) -> str | None:
    """Say why there are no labels, or not all; None if all are there."""
    if subject.has_actions:
        return _ACTIONS
    if statistics.labels is None:
        return _SEVERAL if statistics.rounds else None
    if statistics.labels > MOST_LABELS:
        return f"The first {MOST_LABELS} labels are counted individually, the others together."
    return None


def _label_answer(subject: Subject, statistics: RoundStatistics, k: int, among: tuple[int, Epoch]) -> LabelAnswer:
    sums, (total, latest) = statistics.by_label, among
    return LabelAnswer(
        label=subject.name_of(k),
        retired=k in statistics.retired,
        rounds=_at(sums.rounds, k),
        share=_at(sums.rounds, k) / max(1, total),
        latest_share=_at(latest.labels, k) / max(1, latest.rounds),
        reward=_mean(label_reward(sums, k)),
        value=_mean(_value(subject, statistics, k)),
    )


def _value(subject: Subject, statistics: RoundStatistics, k: int) -> Estimate:
    return label_value(statistics.by_label, k, has_contexts=subject.has_contexts)


def _at(column: tuple[int, ...], k: int) -> int:
    return column[k] if k < len(column) else 0


def _mean(estimate: Estimate) -> MeanAnswer:
    return MeanAnswer(mean=estimate.mean, low=estimate.low, high=estimate.high, rounds=estimate.rounds)
