"""Folds a log again from the lines that the service shows of it, and goes to any recent place in it."""

import copy
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from service.models.changes import FromSnapshot
from service.models.model import Model
from service.replicas.guarded_fold import Recomputing, learn
from service.replicas.states import continued, keeps_state
from service.replicas.tails import Position, learned_spans
from toolkit.offline_replay.history import History
from toolkit.offline_replay.page import Page

_STATE_EVERY, _MOST_STATES = 4096, 16
"""Rounds between kept states, and their number: predictions may have waited for as many rounds as both together."""


class _Kept(NamedTuple):
    position: Position
    state: Any
    reason: str


class Fold:
    """The state of a model at a place of its log.

    The state is unknown after a change to a state that is not public, and known again after a reset.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._position = Position(0, 0)
        self._reason = ""  # why the state is unknown
        self.state: Any = history.model(0).learner.init()
        self._pages: deque[Page] = deque()
        self._kept: deque[_Kept] = deque()
        self._keep()

    def add(self, page: Page) -> None:
        """Add the next rounds of the log."""
        self._pages.append(page)

    def go_to(self, place: Position) -> str:
        """Bring the state to a place of the log; return why it is unknown there, or "".

        The predictions of all rounds before the place must have been decided, as the fold needs their evidence.
        """
        if place < self._position and not self._go_back(place):
            return f"a prediction waited for more than {_STATE_EVERY * (_MOST_STATES - 1):,} rounds"
        while self._position < place:
            rounds, changes = self._position
            if rounds == place.round_count:
                self._change()
                continue
            page = next((each for each in self._pages if each.first + each.n > rounds + 1), None)
            if page is None or place.round_count < page.first - 1:
                return _gap(rounds)
            if page.first > rounds + 1:
                self._position = Position(page.first - 1, int(page.changes[0]))
                self._lose(_gap(rounds))
            elif changes < page.changes[rounds + 1 - page.first]:
                self._change()
            else:
                self._fold(page, place.round_count)
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
        """Make the next change."""
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

    def _fold(self, page: Page, until: int) -> None:
        """Fold rounds of a page up to a number, or to the next change or kept state."""
        rounds, changes = self._position
        start = rounds + 1 - page.first
        later = np.flatnonzero(page.changes[start:] > changes)
        ahead = min(until - rounds, _STATE_EVERY - rounds % _STATE_EVERY, page.n - start, *later[:1].tolist())
        if not self._reason:
            self._learn(self._history.model(changes), page, start, start + ahead)
        self._position = Position(rounds + ahead, changes)
        if self._position.round_count % _STATE_EVERY == 0:
            self._keep()

    def _learn(self, model: Model, page: Page, start: int, stop: int) -> None:
        seen = np.array([each.change_count for each in page.seen[start:stop]])
        for first, end, has_evidence in learned_spans(model, page.held_out[start:stop], seen):
            lacks = [each is None for each in page.evidence[start + first : start + end]]
            if has_evidence and model.learner.evidence_size and any(lacks):
                number = page.first + start + first + lacks.index(True)
                self._lose(f"round {number:,} was predicted with an unknown state, which its update depends on")
                return
            rounds, done = page.learnable(model, start + first, start + end), 0
            while done < rounds.n:
                folder = model.choice if has_evidence else Recomputing(model.learner)
                self.state, n = learn(folder, self.state, rounds.rows(done, rounds.n))
                done += n + 1  # the service leaves out a round that it cannot fold

    def _lose(self, reason: str) -> None:
        self.state, self._reason = None, reason

    def _keep(self) -> None:
        self._kept.append(_Kept(self._position, copy.deepcopy(self.state), self._reason))
        while len(self._kept) > _MOST_STATES:
            self._kept.popleft()
        oldest = self._kept[0].position
        while len(self._pages) > 1 and self._pages[0].first + self._pages[0].n <= oldest.round_count + 1:
            self._pages.popleft()
        self._history.forget(oldest.change_count)


def _gap(rounds: int) -> str:
    return f"the log lacks round {rounds + 1:,}"
