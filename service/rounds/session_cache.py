"""The sessions of one worker, by model: a cache bounded in bytes."""

import logging
import sys
from collections import OrderedDict

from service.environment import Environment
from service.errors import ModelNotFoundError, WagerError
from service.models.model import Model, reading_cost, stored_model
from service.rounds.session import ModelSession
from service.store.stored_models import StoredModel
from service.wording.values import quoted

_log = logging.getLogger(__name__)

_SESSION_BYTES = 16_384
"""About what a session takes beside its learner's state and its labels."""


class SessionCache:
    """Opens sessions as they are asked for, and closes those longest unused when memory runs short.

    Args:
        environment: what sessions need.
        max_bytes: about how much memory sessions and their states may take; the busy ones may exceed it.
    """

    def __init__(self, environment: Environment, max_bytes: int) -> None:
        self._environment = environment
        self._max_bytes = max_bytes
        self._sessions: OrderedDict[str, ModelSession] = OrderedDict()
        self._costs: dict[ModelSession, int] = {}
        self._bytes = 0

    async def find(self, name: str, field: str) -> ModelSession:
        """The session of the model of that name.

        Raises:
            ModelNotFoundError: if there is no such model, blaming that field of the request.
            StoreCorruptError: if its definition cannot be read.
        """
        session = self._sessions.get(name)
        if session is not None:
            self._sessions.move_to_end(name)
            return session
        stored = await self._environment.store.get_model(name)
        if stored is None:
            raise ModelNotFoundError(f"there is no model {quoted(name)}", field)
        compute = self._environment.compute
        model = await compute.run_costly(reading_cost(stored), name, _complete_model, stored)
        return self._open(ModelSession(model, self._environment))

    def drop(self, session: ModelSession) -> None:
        """Forgets a session, as when its model is gone."""
        if self._sessions.get(session.model.name) is session:
            del self._sessions[session.model.name]
            self._bytes -= self._costs.pop(session)
            session.replica.give_up()

    def forget(self, name: str) -> None:
        """Drop the session of a model that is deleted."""
        if name in self._sessions:
            self.drop(self._sessions[name])

    async def maintain(self) -> None:
        """Does the upkeep of every session; one whose model is gone is dropped, trouble with one is logged."""
        for session in list(self._sessions.values()):
            try:
                await session.maintain()
            except ModelNotFoundError:
                self.drop(session)
            except WagerError as error:  # affected requests get the error
                _log.warning("upkeep of model %s: %s", session.model.name, error.detail)
            except Exception:  # noqa: BLE001  one broken model must not end the upkeep of all
                _log.exception("upkeep of model %s", session.model.name)

    def _open(self, session: ModelSession) -> ModelSession:
        there = self._sessions.setdefault(session.model.name, session)
        if there is session:  # else another request opened it while this one waited for the store
            self._costs[session] = _cost(session)
            self._bytes += self._costs[session]
            self._make_room(session)
        return there

    def _make_room(self, newest: ModelSession) -> None:
        for session in list(self._sessions.values()):
            if self._bytes <= self._max_bytes:
                return
            if session.idle and session is not newest:
                self.drop(session)


def _complete_model(stored: StoredModel) -> Model:
    """The stored model, with what is made once from its labels."""
    model = stored_model(stored)
    _ = model.answers, model.format
    return model


def _cost(session: ModelSession) -> int:
    """About the memory that a session holds: its learner's state, the labels, the tables of them, and the rest."""
    labels = session.model.definition.labels
    strings = sys.getsizeof(labels) + sum(map(sys.getsizeof, labels))
    return session.replica.bytes + strings + session.model.answers.table_bytes + _SESSION_BYTES
