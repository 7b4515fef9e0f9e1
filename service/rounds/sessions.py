"""The model sessions of one worker: predictions, feedback and upkeep of each model it serves."""

import contextlib
import logging
import sys
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from service import request_context
from service.background.upkeep import Upkeep
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import ModelNotFoundError, StoreError, WagerError
from service.models.model import Model
from service.models.policies import closes
from service.replicas.replica import Replica
from service.rounds.feedback import FeedbackJoiner
from service.rounds.predictor import Predictor
from service.store.stored_models import ModelKey
from service.store.values import Due, Snapshot

_log = logging.getLogger(__name__)
_SESSION_BYTES = 28_672  # approximate bytes of a session without its learner's state and its labels
_T = TypeVar("_T")


class ModelSession:
    """Serves one model in this worker."""

    def __init__(self, model: Model, environment: Environment) -> None:
        self.replica = Replica(model, environment.store, environment.compute, environment.monotonic)
        self.upkeep = Upkeep(self.replica, environment.store, environment.now)
        self.predictor = Predictor(self.replica, environment, self.upkeep)
        self.feedback = FeedbackJoiner(self.replica, environment, self.upkeep)

    @property
    def model(self) -> Model:
        """The model, with every change that this worker has seen."""
        return self.replica.model

    @property
    def idle(self) -> bool:
        """Whether the session has no work queued or in progress."""
        return self.predictor.idle and self.feedback.idle and self.upkeep.idle


class SessionCache:
    """Opens sessions on demand, and drops the least recently used ones to respect a memory limit.

    Sizes are approximate, and busy sessions are kept even above the limit.
    """

    def __init__(self, environment: Environment, max_bytes: int) -> None:
        self.environment = environment
        self._max_bytes = max_bytes
        self._sessions: OrderedDict[str, ModelSession] = OrderedDict()
        self._costs: dict[ModelSession, int] = {}
        self._bytes = 0
        self._traffic = Counter[str]()  # by model, the predictions that the store has not counted yet

    async def find(self, name: str, field: str) -> ModelSession:
        """Return the session of the model with this name; open one if needed. Errors name the request's `field`."""
        session = self._sessions.get(name)
        if session is not None:
            self._sessions.move_to_end(name)
            return session
        stored = await self.environment.store.get_model(name)
        if stored is None:
            raise ModelNotFoundError(f"there is no model {quoted(name)}", field)
        model = await self.environment.models.read(stored)
        await self.environment.store.watch(Due.CLOSING, [model.key] if closes(model.definition) else [])
        retained = model.definition.retain_seconds is not None
        await self.environment.store.watch(Due.RETENTION, [model.key] if retained else [])
        return self._open(ModelSession(model, self.environment))

    async def use(self, name: str, field: str, work: Callable[[ModelSession], Awaitable[_T]]) -> _T:
        """Do some work in a model's session; if the model's incarnation is gone, repeat the work in a new session."""
        request_context.note_model(name)
        session = await self.find(name, field)
        try:
            return await work(session)
        except ModelNotFoundError:
            self.drop(session)
            return await work(await self.find(name, field))

    async def current(self, name: str) -> tuple[Model, Snapshot]:
        """Return a model and a snapshot with every round that was acknowledged before the call."""
        return await self.use(name, "name", lambda session: session.replica.current())

    def drop(self, session: ModelSession) -> None:
        """Drop a session whose model is gone, and stop its fold."""
        self.environment.models.forget(session.model.key)
        if self._close(session):
            session.replica.give_up()

    def _close(self, session: ModelSession) -> bool:
        if self._sessions.get(session.model.name) is not session:
            return False
        self._note_traffic(session)
        del self._sessions[session.model.name]
        self._bytes -= self._costs.pop(session)
        return True

    def forget(self, name: str) -> None:
        """Drop the session of a deleted model, and its traffic: the ranking would keep the name."""
        if name in self._sessions:
            self.drop(self._sessions[name])
        del self._traffic[name]

    async def maintain(self, *, is_last: bool = False) -> None:
        """Run the upkeep of each session, and count its traffic. Drop sessions of deleted models; log other errors.

        States grow, so idle sessions may be dropped to respect the memory limit. `is_last` if the worker ends.
        """
        for session in list(self._sessions.values()):
            if session not in self._costs:  # dropped to make room for another
                continue
            try:
                await session.upkeep.run(is_last=is_last)
                self._weigh(session)
            except ModelNotFoundError:
                self.drop(session)
            except WagerError as error:  # requests that the error affects get it too
                session.upkeep.warn(error.detail)
            except Exception:  # noqa: BLE001  one failing model must not stop the upkeep of the others
                _log.exception("upkeep of model %s", session.model.name)
        await self._count_traffic()

    async def _count_traffic(self) -> None:
        for session in self._sessions.values():
            self._note_traffic(session)
        made, self._traffic = self._traffic, Counter()
        with contextlib.suppress(StoreError):  # the ranking of models by traffic is approximate
            await self.environment.store.count_traffic(made)

    def _note_traffic(self, session: ModelSession) -> None:
        if session.upkeep.traffic:
            self._traffic[session.model.name] += session.upkeep.traffic
            session.upkeep.traffic = 0

    def closing(self) -> list[ModelKey]:
        """Return the keys of the loaded models whose expired predictions the store closes."""
        return [session.model.key for session in self._sessions.values() if closes(session.model.definition)]

    def retained(self) -> list[ModelKey]:
        """Return the keys of the loaded models that have `retain_seconds`."""
        sessions = self._sessions.values()
        return [each.model.key for each in sessions if each.model.definition.retain_seconds is not None]

    async def write_snapshot(self, name: str) -> None:
        """Load a model, fold its log, and write a snapshot."""
        replica = (await self.find(name, "name")).replica
        await replica.catch_up()
        await replica.snapshot()

    async def fold_soon(self, name: str) -> None:
        """Load a model, and begin to fold its log and to publish its statistics in the background."""
        (await self.find(name, "name")).upkeep.fold_soon()

    def note_rounds(self, key: ModelKey, newest: int) -> None:
        """Pass the number of the newest round in a model's log to its session, if it is loaded."""
        session = self._sessions.get(key.name)
        if session is not None and session.model.key == key:
            session.upkeep.note_rounds(newest)

    def _open(self, session: ModelSession) -> ModelSession:
        opened = self._sessions.setdefault(session.model.name, session)
        if opened is session:  # otherwise, a concurrent request opened one first
            self._costs[session] = 0
            self._weigh(session)
        return opened

    def _weigh(self, session: ModelSession) -> None:
        if session not in self._costs:  # dropped
            return
        before, self._costs[session] = self._costs[session], _cost(session)
        self._bytes += self._costs[session] - before
        for other in list(self._sessions.values()):
            if self._bytes <= self._max_bytes:
                return
            if other.idle and other is not session:
                self._close(other)
                other.replica.release()


def _cost(session: ModelSession) -> int:
    labels = session.model.definition.labels
    strings = sys.getsizeof(labels) + sum(map(sys.getsizeof, labels))
    return session.replica.bytes + strings + session.model.choice.table_bytes + _SESSION_BYTES
