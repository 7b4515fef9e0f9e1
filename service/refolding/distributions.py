"""Recomputes the distributions of a log.

The log keeps the probability of the answer only. The distribution of a prediction follows from the state that it was
made with: the fold of the first `rounds_seen` rounds. So the log is folded again from its first round, and every
prediction is decided again at its place. A result counts only if it has the logged probability.
"""

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from learners.base import FloatArray
from service.errors import WagerError
from service.models.model import Model
from service.refolding.model_of_answer import model_of
from service.refolding.page import Page, page_of

_TOLERANCE = 1e-9

_STATE_EVERY, _MOST_STATES = 4096, 16
"""Rounds between kept states, and their number: predictions may have waited for as many rounds as both together."""


class Distributions:
    """The distributions of one model's log.

    Args:
        answer: what `GET /models/{name}` says of the model.

    Attributes:
        reason: why later distributions are unknown; "" if they can be recomputed.
        unknown: the number of rounds without a distribution.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.unknown = 0
        self._position, self._next = 0, 1
        self._pages: deque[Page] = deque()
        self._states: deque[tuple[int, Any]] = deque()
        self._model: Model | None = None
        self._state: Any = None
        self._has_actions = answer.get("actions") is not None
        self.reason = "" if self._has_actions else self._begin(answer)

    def of(self, lines: Sequence[Mapping[str, Any]]) -> list[list[float] | None]:
        """Return the distribution of each of the next rounds of the log, in the order of its labels or actions.

        Args:
            lines: the lines of `GET /models/{name}/rounds` after the last ones, from round 1 on.
        """
        found = [_logged(line) for line in lines] if self._has_actions else self._recomputed(lines)
        self.unknown += found.count(None)
        return found

    def _begin(self, answer: Mapping[str, Any]) -> str:
        """Build the model; return why its distributions are unknown, or ""."""
        if answer["changes"]["count"]:
            return f"the model has {answer['changes']['count']} changes, whose places in the log are not public"
        if answer["mode"] == "logging":
            return "the model draws from the policies of the requests, which the log does not keep"
        try:
            self._model = model_of(answer)
        except (WagerError, ValueError) as error:
            return f"this version cannot build the model: {error}"
        if self._model.answers.choices is None:
            return "the model answers several labels"
        self._state = self._model.learner.init()
        self._states.append((0, copy.deepcopy(self._state)))
        return ""

    def _recomputed(self, lines: Sequence[Mapping[str, Any]]) -> list[list[float] | None]:
        if not lines or self.reason or self._model is None:
            return [None] * len(lines)
        if any(line["round"] != number for number, line in enumerate(lines, self._next)):
            self.reason = f"the log lacks round {self._next:,}"
            return [None] * len(lines)
        self._next += len(lines)
        page = page_of(self._model, lines)
        self._pages.append(page)
        return self._decided(self._model, page, lines)

    def _decided(self, model: Model, page: Page, lines: Sequence[Mapping[str, Any]]) -> list[list[float] | None]:
        """Decide the predictions of a page, in the order of the states that they were made with."""
        found: list[list[float] | None] = [None] * len(lines)
        order = np.argsort(page.seen, kind="stable")
        starts = [0, *(np.flatnonzero(np.diff(page.seen[order])) + 1).tolist(), len(order)]
        for start, stop in pairwise(starts):
            rows = order[start:stop].tolist()
            if not self._go_to(model, int(page.seen[rows[0]])):
                break
            for i in rows:
                found[i] = self._decide(model, page, i, lines[i])
        return found

    def _decide(self, model: Model, page: Page, i: int, line: Mapping[str, Any]) -> list[float] | None:
        """Decide one prediction; return its distribution if it agrees with the log."""
        row = page.rounds.rows(i, i + 1)
        decision = model.learner.decide(self._state, row.contexts, row.eligible if row.eligible.shape[1] else None)
        page.rounds.evidence[i] = decision.evidence[0]
        label = int(row.labels[0])
        held = _held_out(model, row.eligible, label) if line["holdout"] else decision.distributions[0]
        logged = line["propensity"]
        return held.tolist() if logged is not None and abs(held[label] - logged) <= _TOLERANCE else None

    def _go_to(self, model: Model, place: int) -> bool:
        """Bring the state to a place of the log; return False if that is not possible."""
        if place < self._position:
            while self._states and self._states[-1][0] > place:
                self._states.pop()
            if not self._states:
                self.reason = f"a prediction waited for more than {self._position - place:,} rounds"
                return False
            self._position, kept = self._states[-1]
            self._state = copy.deepcopy(kept)
        while self._position < place:
            page = next(each for each in self._pages if each.first + each.rounds.n > self._position + 1)
            start = self._position + 1 - page.first
            until_kept = _STATE_EVERY - self._position % _STATE_EVERY
            stop = min(page.rounds.n, start + place - self._position, start + until_kept)
            self._fold(model, page, start, stop)
        return True

    def _fold(self, model: Model, page: Page, start: int, stop: int) -> None:
        learned = page.learned[start:stop]
        edges = np.flatnonzero(np.diff(np.concatenate([[0], learned, [0]]).astype(np.int8))) + start
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            self._state = model.learner.fold(self._state, page.rounds.rows(first, end))
        self._position += stop - start
        if self._position % _STATE_EVERY == 0:
            self._states.append((self._position, copy.deepcopy(self._state)))
            while len(self._states) > _MOST_STATES:
                self._states.popleft()
            oldest = self._states[0][0]
            while self._pages[0].first + self._pages[0].rounds.n <= oldest + 1 and len(self._pages) > 1:
                self._pages.popleft()


def _logged(line: Mapping[str, Any]) -> list[float] | None:
    """Return the distribution over the actions, if the log keeps all of them."""
    probabilities = [each["probability"] for each in line["actions"] or ()]
    return probabilities if probabilities and None not in probabilities else None


def _held_out(model: Model, eligible: Any, label: int) -> FloatArray:
    """Return the distribution of the holdout's policy."""
    holdout, k = model.definition.holdout, len(model.definition.labels)
    allowed = eligible[0] if eligible.shape[1] else np.ones(k, np.bool_)
    uniform: FloatArray = allowed / allowed.sum()
    if holdout is None or holdout.policy == "uniform":
        return uniform
    wanted = label if holdout.policy == "baseline" else model.answers.numbers[holdout.policy.label]
    return np.eye(k)[wanted] if allowed[wanted] else uniform
