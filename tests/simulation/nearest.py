"""The distribution nearest to another one that obeys rules, by plain bisection."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_TINY = 1e-100  # replaces a probability of 0, which no factor could raise
_WIDEST, _HALVINGS = 300.0, 130  # of the logarithm of a factor
_ROUNDING = 1e-9


class _Group(NamedTuple):
    """Labels with their bounds, and the bounds of their sum. A label without a group is one alone."""

    members: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]
    least: float
    most: float

    def scaled(self, q: Sequence[float], factor: float) -> list[float]:
        """Return what the labels get with a factor."""
        bounds = zip(self.members, self.low, self.high, strict=True)
        return [min(max(factor * q[k], low), high) for k, low, high in bounds]

    def total(self, q: Sequence[float], factor: float) -> float:
        """Return what the labels get together, within the bounds of their sum."""
        return min(max(sum(self.scaled(q, factor)), self.least), self.most)


def nearest(q: Sequence[float], labels: Sequence[str], rules: dict[str, Any], eligible: Sequence[bool]) -> list[float]:
    """Return the distribution that obeys the rules with the least relative entropy to q.

    Each label has q times its group's factor, within its bounds; groups within their own bounds share one factor. If
    the eligible labels cannot have all the probability because of caps, no cap holds. The floor of a group holds as far
    as its labels can have it. All other floors hold for some labels if they hold for all of them.
    """
    q = [max(each, _TINY) for each in q]
    groups = _groups(labels, rules, eligible, capped=True)
    if sum(group.most for group in groups) < 1.0 - _ROUNDING:
        groups = _groups(labels, rules, eligible, capped=False)
    shared = _bisected(lambda factor: sum(group.total(q, factor) for group in groups), 1.0)
    p = [0.0] * len(q)
    for group in groups:
        for k, probability in zip(group.members, _filled(group, q, group.total(q, shared)), strict=True):
            p[k] = probability
    return p


def _groups(labels: Sequence[str], rules: dict[str, Any], eligible: Sequence[bool], *, capped: bool) -> list[_Group]:
    number = {label: k for k, label in enumerate(labels)}
    grouped = {label for members in rules["groups"].values() for label in members}
    together = {**rules["groups"], **{label: [label] for label in labels if label not in grouped}}
    floor, cap, found = rules["floor"], rules["cap"] if capped else {}, list[_Group]()
    for name, members in together.items():
        there = [label for label in members if eligible[number[label]]]
        low = [max(floor.get(label, 0.0), rules["floor_each"]) for label in there]
        high = [cap.get(label, 1.0) for label in there]
        least, most = min(floor.get(name, 0.0), sum(high)), min(cap.get(name, 1.0), sum(high))
        found.append(_Group([number[label] for label in there], low, high, least, most))
    return found


def _filled(group: _Group, q: Sequence[float], total: float) -> list[float]:
    return group.scaled(q, _bisected(lambda factor: sum(group.scaled(q, factor)), total))


def _bisected(sum_of: Callable[[float], float], wanted: float) -> float:
    """Return the factor with a sum; sums do not fall with the factor."""
    low, high = -_WIDEST, _WIDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if sum_of(math.exp(middle)) < wanted else (low, middle)
    return math.exp(high)
