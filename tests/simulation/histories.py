"""What was true of predictions, and since when.

A worker hears the reply of a script later than the script runs, and a client hears the worker later still. Therefore an
answer or a refusal is right if it was true at some moment since its request arrived at a worker. A moment is the number
of commands that the server has run (`RedisServer.moment`). After a loss of the server, nothing before it is judged.
"""

import math
from typing import NamedTuple

from tests.simulation.log_rounds import Own, Round, Stored


class Since(NamedTuple):
    """The moment when a request about a model arrived at a worker, and what was true then."""

    moment: int
    losses: int  # of the server, as the model's truth counts them
    newest: int  # the round that a new prediction must have seen
    changes: int  # of the model


class Histories:
    """The histories of the predictions of one model.

    Attributes:
        stored: the predictions as they are stored now, and those whose keys have expired.
    """

    def __init__(self) -> None:
        self.stored: dict[Own, Stored] = {}
        self._replaced: dict[Own, list[tuple[int, Stored]]] = {}  # until which moment, and what was stored
        self._inactive_until: dict[Own, float] = {}  # the moment of the activation; infinite: inactive now
        self._undone = set[tuple[int, Own, float]]()

    def store(self, own: Own, stored: Stored, *, is_inactive: bool) -> None:
        """Note a prediction that is stored, perhaps again after its key has expired."""
        if own in self.stored:
            self._replaced.setdefault(own, []).append((stored.moment, self.stored[own]))
        self.stored[own] = stored
        if is_inactive:
            self._inactive_until[own] = math.inf

    def stored_since(self, own: Own, moment: int) -> list[Stored]:
        """Return what was stored as a prediction at some time since a moment."""
        now = [self.stored[own]] if own in self.stored else []
        return now + [stored for until, stored in self._replaced.get(own, []) if until > moment]

    def activate(self, own: Own, moment: int) -> None:
        """Note that a prediction is active."""
        if self.is_inactive(own):
            self._inactive_until[own] = moment

    def is_inactive(self, own: Own) -> bool:
        """Whether a prediction is inactive now."""
        return self._inactive_until.get(own) == math.inf

    def was_inactive(self, own: Own, moment: int) -> bool:
        """Whether a prediction was inactive at some time since a moment."""
        return self._inactive_until.get(own, 0) > moment

    def deactivate(self, own: Own) -> None:
        """Note that the server has lost the activation of a prediction."""
        self._inactive_until[own] = math.inf

    @property
    def once_inactive(self) -> list[Own]:
        """The predictions that were ever inactive."""
        return list(self._inactive_until)

    def forget(self, own: Own) -> None:
        """Note that the server has lost a prediction."""
        del self.stored[own]
        self._inactive_until.pop(own, None)

    def undo(self, number: int, lost: Round) -> None:
        """Note that the server has lost a round."""
        self._undone.add((number, lost.own, lost.reward))

    def is_undone(self, number: int, own: Own, reward: float) -> bool:
        """Whether the log once had a round that the server has lost."""
        return (number, own, reward) in self._undone
