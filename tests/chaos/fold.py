"""The fold of a whole log, in the largest steps that the propensities of its rounds allow."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learners.base import NO_LABEL, Contexts, FloatArray, Rounds, every_label
from learners.mathematics.preparation import Preparation, prepare
from tests.chaos.logged import Line
from tests.service.sample_models import distribution_of, learner_of, prepared

TOLERANCE = 1e-9
"""Relative tolerance of propensities: a batch of another size may round differently."""


class Fold:
    """Folds the rounds of a model with labels and dense contexts, and checks the propensity of each.

    The state that made a prediction is that after the `rounds_seen` of its round. Predictions of one state are decided
    at once, and the rounds between two such states are folded at once.

    Args:
        model: answer of `GET /models/{name}`.
        lines: all rounds of its log.
    """

    def __init__(self, model: Mapping[str, Any], lines: Sequence[Line]) -> None:
        self._model = dict(model)
        self._learner = learner_of(self._model)
        self._rounds = rounds_of(self._model, lines)
        self._seen = np.array([line.rounds_seen for line in lines], np.int64)
        self._evidence: FloatArray | None = None
        self._state: Any = self._learner.init()
        self._folded = 0

    def distribution(self, context: Sequence[float]) -> list[float]:
        """Return the label probabilities after all rounds, for a context as a client sends it."""
        return distribution_of(self._learner, self._state, prepared(self._model, context))

    def run(self) -> list[int]:
        """Fold all rounds; return the numbers of those with a propensity that their `rounds_seen` do not give."""
        order = np.argsort(self._seen, kind="stable")
        starts = np.flatnonzero(np.diff(self._seen[order], prepend=-1))
        wrong = list[int]()
        for group in np.split(order, starts[1:]):
            if len(group) == 0 or self._seen[group[0]] > min(group):
                return [int(row) + 1 for row in group]  # it saw itself, or later rounds
            self._fold_until(int(self._seen[group[0]]))
            wrong += self._decide(group)
        self._fold_until(len(order))
        return wrong

    def _decide(self, group: Any) -> list[int]:
        """Decide the predictions of these rounds in the current state; return the numbers of wrong ones."""
        decisions = self._learner.decide(self._state, _rows(self._rounds.contexts, group))
        if self._evidence is None:
            self._evidence = np.zeros((self._rounds.n, decisions.evidence.shape[1]))
        self._evidence[group] = decisions.evidence
        expected = decisions.distributions[np.arange(len(group)), self._rounds.labels[group]]
        given = self._rounds.propensities[group]
        wrong = ~(np.abs(expected - given) <= TOLERANCE * np.maximum(expected, given))
        return [int(row) + 1 for row in group[wrong]]

    def _fold_until(self, stop: int) -> None:
        start, self._folded = self._folded, stop
        if stop > start and self._evidence is not None:
            rounds = self._rounds._replace(evidence=self._evidence).rows(start, stop)
            self._state = self._learner.fold(self._state, rounds)


def rounds_of(model: Mapping[str, Any], lines: Sequence[Line]) -> Rounds:
    """Return the rounds of a log without their evidence."""
    features, label_of = model["features"], {label: number for number, label in enumerate(model["labels"])}
    preparation = Preparation(features["norm"], features["norm_bound"], features["intercept"], features["size"])
    n, rewards = len(lines), np.array([line.reward for line in lines], np.float64)
    return Rounds(
        contexts=prepare(Contexts.dense([line.context for line in lines]), preparation),
        labels=np.array([label_of[line.label] for line in lines], np.int64),
        propensities=np.array([line.propensity for line in lines]),
        correct=rewards == 1.0,
        true_labels=np.full(n, NO_LABEL),
        evidence=np.zeros((n, 0)),
        residual_uniforms=np.zeros(n),  # no learner here flips coins
        rewards=rewards,
        eligible=every_label(n),
    )


def _rows(contexts: Contexts, rows: Any) -> Contexts:
    """Return some rows of dense contexts."""
    size = len(contexts.indices)
    values = contexts.values.reshape(-1, size)[rows]
    return contexts._replace(starts=np.arange(len(rows) + 1) * size, values=values.ravel())
