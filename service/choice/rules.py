"""Rules in the form that decisions use: limits on the probabilities of candidates, and which of them were left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from learners.mathematics.limits import Limits
from service import costs
from service.schemas.rules import Rules

_ROUNDING = 1e-8  # by which a probability may miss a rule
_MOST_NAMED = 10  # maximum rules that an answer names


class RuleLimits:
    """The limits that a model's rules set. Groups are numbered: the model's groups, or the tags that rules name."""

    def __init__(self, rules: Rules, labels: Mapping[str, int] | None) -> None:
        """`labels` has the number of each label; it is None for a model with actions, whose rules name tags."""
        self._rules, self._numbers = rules, labels or {}
        groups = {**rules.floor, **rules.cap} if labels is None else rules.groups
        self._groups = {group: g for g, group in enumerate(groups)}
        self._bounds = _bounds(rules, self._groups)

    @property
    def of_labels(self) -> Limits:
        """The limits of all labels."""
        groups = np.full(len(self._numbers), -1)
        for group, members in self._rules.groups.items():
            groups[[self._numbers[label] for label in members]] = self._groups[group]
        return Limits(*_bounds(self._rules, self._numbers), np.array([self._rules.floor_each]), groups, *self._bounds)

    def of_tags(self, tags: Sequence[str | None]) -> Limits:
        """Return the limits of m candidates with these tags."""
        m, each = len(tags), np.array([self._rules.floor_each])
        groups = np.array([-1 if tag is None else self._groups.get(tag, -1) for tag in tags], np.int64)
        return Limits(np.zeros(m), np.ones(m), each, groups, *self._bounds)

    def left_out(self, groups: IntArray, eligible: BoolArray, p: FloatArray) -> list[str]:
        """Return the rules that a distribution p (m,) breaks, such as `floor.control`, because they were impossible.

        `groups` has the number of each candidate's group, -1 for none. An empty mask means that all are eligible.
        """
        rules, sums = self._rules, np.bincount(groups + 1, p, len(self._groups) + 1)[1:].astype(np.float64)
        least = (p[eligible] if len(eligible) else p).min(initial=1.0)
        broken = ["floor_each"] if least < rules.floor_each - _ROUNDING else []
        for name, share in rules.floor.items():
            if self._probability(name, p, sums) < share - _ROUNDING:
                broken.append(f"floor.{name}")
        for name, share in rules.cap.items():
            if self._probability(name, p, sums) > share + _ROUNDING:
                broken.append(f"cap.{name}")
        others = len(broken) - _MOST_NAMED
        return broken if others <= 0 else [*broken[:_MOST_NAMED], f"{others} more"]

    def cost(self, candidates: int) -> int:
        """Return the cost of limiting one distribution, and of naming the rules that it breaks, in multiply-adds."""
        return candidates * costs.LIMITED_CANDIDATE + (len(self._rules.floor) + len(self._rules.cap)) * costs.RULE

    def _probability(self, name: str, p: FloatArray, sums: FloatArray) -> float:
        return float(p[self._numbers[name]] if name in self._numbers else sums[self._groups[name]])


def _bounds(rules: Rules, numbers: Mapping[str, int]) -> tuple[FloatArray, FloatArray]:
    """Return the floors and the caps of numbered labels or groups."""
    low, high = np.zeros(len(numbers)), np.ones(len(numbers))
    for shares, bounds in ((rules.floor, low), (rules.cap, high)):
        for name, share in shares.items():
            if name in numbers:
                bounds[numbers[name]] = share
    return low, high
