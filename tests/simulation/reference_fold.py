"""The sequential fold of a whole log: one entry after the other, in one process, without snapshots."""

from typing import Any, NamedTuple

import numpy as np

from learners.codec import encode_state
from service.models.model import Model
from service.replicas.replica import Replica
from service.store.stored_models import ModelKey
from tests.simulation.event_loop import run_now
from tests.simulation.log_rounds import Position
from tests.simulation.whole_log import WholeLog
from tests.simulation.workers import InlineCompute


class Point(NamedTuple):
    """The fold of a log up to some entry."""

    model: Model
    state: Any  # a copy
    bits: bytes  # the state, encoded
    mark: bytes | None  # of the entry


class ReferenceFold:
    """The states after every entry of a log.

    Args:
        store: has the log.
        key: the model.
    """

    def __init__(self, store: WholeLog, key: ModelKey) -> None:
        self._store = store
        self._key = key
        self.points: dict[Position, Point] = {}
        self._replica = self._new_replica()

    def _new_replica(self) -> Replica:
        return Replica(self._store.stored_model(self._key), self._store, InlineCompute())

    @property
    def model(self) -> Model:
        """The model after all changes of the log."""
        return self._replica.model

    def learn(self, mark: bytes | None) -> None:
        """Fold the entries that are new; `mark` is that of the last one."""
        run_now(self._replica.catch_up())
        state, model = self._replica.state, self._replica.model
        copied = type(state)(*(np.array(array) for array in state))
        at = self._replica.round_count, self._replica.change_count
        self.points[at] = Point(model, copied, bits_of(model, state), mark)

    def cut(self, end: Position, mark: bytes | None) -> None:
        """Forget the states after a position, and fold the log again."""
        self.points = {at: point for at, point in self.points.items() if at <= end}
        self._replica = self._new_replica()
        self.learn(mark)


def bits_of(model: Model, state: Any) -> bytes:
    """Return a state as bytes."""
    return bytes(encode_state(model.learner, state))
