"""Recomputes the distributions of a log.

The log stores only the probability of the answer. The distribution of a prediction follows from the state that decided
it: the fold of the first `rounds_seen` rounds and `changes_seen` changes. So the log is folded again from its first
round, and each prediction is decided again with that state. A result is used only if it agrees with the logged
probability.
"""

from collections.abc import Sequence

import numpy as np

from learners.base import NO_PRICES, BoolArray, FloatArray
from learners.mathematics.limits import obey
from service.choice.candidates import EVERY
from service.json_values import JsonMapping
from service.models.model import Model
from toolkit.offline_replay.fold import Fold, Round, round_of
from toolkit.offline_replay.history import History, UnknownHistoryError

_TOLERANCE = 1e-9

_LOGGING = "in the mode logging, the model draws from the policies of the requests, which the log does not keep"
_NOT_ALL_ACTIONS = "the log does not keep the probability of every action"
_SEVERAL_LABELS = "the model answers several labels"
_OTHER = "the model did not decide them itself, as in an import, or its updates are random"


class Distributions:
    """Recomputes the distributions of one model's log.

    Attributes:
        reasons: the reasons for unknown distributions, each with the number of rounds.
    """

    def __init__(self, answer: JsonMapping, history: History) -> None:
        self.reasons: dict[str, int] = {}
        self._has_actions = answer.get("actions") is not None
        self._history = history
        self._fold: Fold | None = None
        self._broken = ""  # the reason why no further distribution can be recomputed

    def of(self, lines: Sequence[JsonMapping]) -> list[list[float] | None]:
        """Return the distribution of each prediction in the next rounds of the log.

        Returns:
            The probability of each label that the model had at the prediction, in order, retired ones included; or of
            each action. None if unknown.
        """
        if self._has_actions:
            return [self._known(_logged(line), _NOT_ALL_ACTIONS) for line in lines]
        found: list[list[float] | None] = [None] * len(lines)
        try:
            if lines and not self._broken:
                self._recompute(lines, found)
        except UnknownHistoryError as error:
            self._broken = str(error)
        if self._broken:
            self._note(self._broken, found.count(None))
        return found

    def _recompute(self, lines: Sequence[JsonMapping], found: list[list[float] | None]) -> None:
        if self._history.model(0).choice.answers.choices is None:
            self._broken = _SEVERAL_LABELS
            return
        fold = self._fold = self._fold or Fold(self._history)
        rounds = [round_of(self._history, line) for line in lines]
        for each in rounds:
            fold.add(each)
        for i in sorted(range(len(lines)), key=lambda i: rounds[i].seen):
            found[i] = self._decide(fold, rounds[i], lines[i])

    def _decide(self, fold: Fold, round_: Round, line: JsonMapping) -> list[float] | None:
        """Decide one prediction again; return its distribution if it agrees with the log."""
        if reason := fold.go_to(round_.seen):
            return self._known(None, reason)
        model = self._history.model(round_.seen.change_count)
        eligible = round_.eligible(len(model.definition.labels))
        bills = round_.bills(model.choice)
        prices = NO_PRICES if bills is None else bills.prices
        decision = model.learner.decide(fold.state, round_.rounds.contexts, eligible, prices)
        obey(model.choice.limits, EVERY if eligible is None else eligible[0], decision.distributions[0])
        fold.evidence[round_.number] = decision.evidence[0]
        label, logged = int(round_.rounds.labels[0]), line["propensity"]
        if model.definition.mode == "logging" and not line["holdout"]:
            return self._known(None, _LOGGING)
        answered = _held_out(model, eligible, label) if line["holdout"] else decision.distributions[0]
        agrees = logged is not None and label < len(answered) and abs(answered[label] - logged) <= _TOLERANCE
        return self._known(answered.tolist() if agrees else None, _OTHER)

    def _known(self, distribution: list[float] | None, reason: str) -> list[float] | None:
        """Return a distribution; if it is None, record the reason."""
        if distribution is None:
            self._note(reason, 1)
        return distribution

    def _note(self, reason: str, rounds: int) -> None:
        if rounds:
            self.reasons[reason] = self.reasons.get(reason, 0) + rounds


def _logged(line: JsonMapping) -> list[float] | None:
    """Return the distribution over the actions; None if the log lacks a probability."""
    probabilities = [each["probability"] for each in line["actions"] or ()]
    return probabilities if probabilities and None not in probabilities else None


def _held_out(model: Model, eligible: BoolArray | None, label: int) -> FloatArray:
    """Return the distribution of the holdout's policy."""
    holdout, k = model.definition.holdout, len(model.definition.labels)
    allowed = np.ones(k, np.bool_) if eligible is None else eligible[0]
    uniform: FloatArray = allowed / allowed.sum()
    if holdout is None or holdout.policy == "uniform":
        return uniform
    wanted = label if holdout.policy == "baseline" else model.choice.answers.numbers[holdout.policy.label]
    return np.eye(k)[wanted] if allowed[wanted] else uniform
