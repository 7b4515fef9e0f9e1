"""Folds a log again, from the lines that the API returns, and can go back to any recent place in it."""

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pydantic

from learners.base import NO_LABEL, BoolArray, FloatArray, Prices, Rounds, State
from service.choice.choice import Choice
from service.choice.prices import Bills
from service.contexts.registry import GivenContext
from service.json_values import JsonMapping
from service.models.changes import FromSnapshot
from service.models.model import Model
from service.replicas.guarded_fold import Recomputing, learn
from service.replicas.states import continued, keeps_state
from service.replicas.tails import Position, learned_spans
from toolkit.offline_replay.history import History

_CONTEXT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(GivenContext)
_STATE_EVERY, _MOST_STATES = 4096, 16
"""The number of rounds between two kept states, and the maximum number of kept states. They limit how many rounds later
the feedback on a prediction may have come."""


class Round(NamedTuple):
    """A round of the log. K is the number of labels that the model had when the round was appended."""

    number: int
    seen: Position  # the rounds and changes that its prediction saw
    changes: int  # the number of the model's changes before it
    held_out: bool
    rounds: Rounds  # (1,), without evidence; eligible labels (1, K)
    cost: float | None
    cost_weight: float | None
    costs: Mapping[str, float]  # those that the request gave

    def eligible(self, n_labels: int) -> BoolArray | None:
        """Return the mask of eligible labels among the first `n_labels`, (1, n_labels); None if all are eligible."""
        mask: BoolArray = self.rounds.eligible[:, :n_labels]
        return None if mask.all() else mask

    def bills(self, choice: Choice) -> Bills | None:
        """Return what the round cost, with the costs of `choice` where the request gave none; None if nothing."""
        if self.cost is None and choice.definition.costs is None:
            return None
        costs, weight = choice.label_costs.copy(), self.cost_weight
        for label, cost in self.costs.items():
            costs[choice.answers.numbers[label]] = cost
        prices = Prices(np.array([choice.definition.cost_weight if weight is None else weight]), costs[np.newaxis])
        decided = np.array([[np.nan, np.nan] if weight is None else [weight, self.cost]], np.float64)
        lag = np.array([max(0, self.number - 1 - self.seen.round_count)], np.float64)
        return Bills(prices, decided[:, 0], decided[:, 1], lag)

    def learnable(self, model: Model, evidence: FloatArray | None) -> Rounds:
        """Return the round as the model's learner learns it. Evidence is 0 if unknown, and for labels added later."""
        row = np.zeros((1, model.learner.evidence_size))
        if evidence is not None:
            row[0, : len(evidence)] = evidence[: row.shape[1]]
        eligible = self.eligible(len(model.definition.labels))
        return self.rounds._replace(evidence=row, eligible=np.ones((1, 0), np.bool_) if eligible is None else eligible)


def round_of(history: History, line: JsonMapping) -> Round:
    """Convert a line of `GET /models/{name}/rounds`, for a model with labels.

    Raises:
        UnknownHistoryError: if this version cannot build the model.
    """
    choice = history.model(line["changes"]).choice
    numbers, truth, reward = choice.answers.numbers, line["true_label"], np.array([line["reward"]], np.float64)
    eligible = np.arange(len(numbers)) < history.label_count(line["changes_seen"])
    if line["eligible"] is not None:
        eligible[:] = False
        eligible[[numbers[label] for label in line["eligible"]]] = True
    rounds = Rounds(
        choice.prepared(choice.contexts.to_batch([choice.contexts.check(_CONTEXT.validate_python(line["context"]))])),
        np.array([numbers[line["label"]]], np.int64),
        np.array([line["propensity"]], np.float64),
        reward == 1.0,
        np.array([NO_LABEL if truth is None else numbers[truth]], np.int64),
        np.zeros((1, 0)),
        np.zeros(1),
        reward,
        eligible[np.newaxis],
    )
    seen = Position(line["rounds_seen"], line["changes_seen"])
    price = line["cost"], line["cost_weight"], line["costs"] or {}
    return Round(line["round"], seen, line["changes"], line["holdout"], rounds, *price)


class _Kept(NamedTuple):
    position: Position
    state: State
    reason: str


class Fold:
    """The state of a model at a place of its log.

    The state is unknown after a rollback or a promotion, because the API returns no snapshots, and also after missing
    rounds or evidence. A reset makes it known again.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._position = Position(0, 0)
        self._reason = ""  # the reason why the state is unknown, if it is
        self.state: State = history.model(0).learner.init()
        self.evidence: dict[int, FloatArray] = {}  # the evidence of decisions that were made again, by round
        self._rounds: dict[int, Round] = {}  # added rounds by number, in order, from the oldest kept state on
        self._kept: deque[_Kept] = deque()
        self._keep()

    def add(self, round_: Round) -> None:
        """Add the next round of the log."""
        self._rounds[round_.number] = round_

    def go_to(self, place: Position) -> str:
        """Move the state to a place of the log; return the reason if it is unknown there, else "".

        The predictions of all earlier rounds must have been decided again, and their evidence must be in `evidence`,
        because the fold needs it.

        Raises:
            UnknownHistoryError: if this version cannot apply one of the changes.
        """
        if place < self._position and not self._go_back(place):
            return f"a prediction waited for more than {_STATE_EVERY * (_MOST_STATES - 1):,} rounds"
        while self._position < place:
            number = self._position.round_count + 1
            following = self._rounds.get(number)
            if number > place.round_count or (following and self._position.change_count < following.changes):
                self._change()
            elif following is not None:
                self._fold(following)
            else:
                later = next((each for each in self._rounds.values() if each.number > number), None)
                if later is None or place.round_count < later.number - 1:
                    return _gap(number)
                self._position = Position(later.number - 1, later.changes)
                self._lose(_gap(number))
        return self._reason

    def _go_back(self, place: Position) -> bool:
        """Go to a kept state before a place; return False if there is none."""
        if self._kept[0].position > place:
            return False
        while self._kept[-1].position > place:
            self._kept.pop()
        self._position, kept, self._reason = self._kept[-1]
        self.state = copy.deepcopy(kept)
        return True

    def _change(self) -> None:
        """Apply the next change."""
        rounds, number = self._position.round_count, self._position.change_count + 1
        before, after = self._history.model(number - 1), self._history.model(number)
        self._position = Position(rounds, number)
        if keeps_state(before, after):
            return
        if isinstance(after.new_state, FromSnapshot):
            kind, id_ = self._history.note(number).kind, after.new_state.snapshot
            self._lose(f"change {number:,}, a {kind} after round {rounds:,}, continues from snapshot {id_!r}")
        elif after.new_state is not None or not self._reason:
            self.state, self._reason = continued(before, after, self.state), ""

    def _fold(self, round_: Round) -> None:
        """Fold the next round."""
        model = self._history.model(self._position.change_count)
        self._position = self._position._replace(round_count=round_.number)
        spans = learned_spans(model, np.array([round_.held_out]), np.array([round_.seen.change_count]))
        if spans and not self._reason:
            (_, _, has_evidence), evidence = spans[0], self.evidence.get(round_.number)
            if has_evidence and model.learner.evidence_size and evidence is None:
                what = f"round {round_.number:,} was predicted with an unknown state, which its update depends on"
                self._lose(what)
            else:
                folder = model.choice if has_evidence else Recomputing(model.learner, model.choice)
                self.state, _ = learn(folder, self.state, round_.learnable(model, evidence), round_.bills(model.choice))
        if round_.number % _STATE_EVERY == 0:
            self._keep()

    def _lose(self, reason: str) -> None:
        self.state, self._reason = None, reason

    def _keep(self) -> None:
        self._kept.append(_Kept(self._position, copy.deepcopy(self.state), self._reason))
        while len(self._kept) > _MOST_STATES:
            self._kept.popleft()
        oldest = self._kept[0].position
        for number in [each for each in self._rounds if each <= oldest.round_count]:
            del self._rounds[number]
            self.evidence.pop(number, None)
        self._history.forget(oldest.change_count)


def _gap(number: int) -> str:
    return f"the log lacks round {number:,}"
