"""What a shadow must know: the fold of a log by another learner, one round after another."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.fold import rounds_of
from tests.chaos.logged import Line
from tests.service.sample_models import distribution_of, learner_of, prepared


class Shadowing:
    """The state of a shadow after all rounds, and its estimated reward.

    Args:
        model: answer of `GET /models/{name}`, with the learner of the shadow.
        lines: all rounds of its log.
    """

    def __init__(self, model: Mapping[str, Any], lines: Sequence[Line]) -> None:
        self._model = dict(model)
        self._learner = learner_of(self._model)
        self._state: Any = self._learner.init()
        self.ips, rounds = 0.0, rounds_of(self._model, lines)
        for row, line in enumerate(lines):
            one = rounds.rows(row, row + 1)
            decisions = self._learner.decide(self._state, one.contexts)
            weight = decisions.distributions[0, one.labels[0]] / line.propensity
            self.ips += float(weight) * line.reward / len(lines)
            self._state = self._learner.fold(self._state, one._replace(evidence=decisions.evidence))

    def distribution(self, context: Sequence[float]) -> list[float]:
        """Return the label probabilities after all rounds, for a context as a client sends it."""
        return distribution_of(self._learner, self._state, prepared(self._model, context))
