"""Imports rounds into the log of a model, each exactly once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from service import costs, request_context
from service.choice.requests import PredictionRequest
from service.environment import Environment
from service.error_messages.values import counted, quoted
from service.errors import ImportPositionError, LearnerFailedError, ModelNotFoundError, StoreUnavailableError
from service.models.model import Model
from service.models.policies import keep_seconds
from service.replicas.replica import Replica
from service.rounds.deciding import Basis, ImpossibleDecisionsError, chance_of
from service.rounds.import_parsing import ReadRound, drawn_predictions, encoded, logged_predictions, read_rounds
from service.rounds.predictor import checking_cost
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import ImportAnswer, ImportedSource, ImportList, ImportRequest, ImportRound
from service.store.base import Imported, ImportPart
from service.store.records.new_predictions import NewPredictions

_ATTEMPTS = 20  # attempts to import rounds while others change the model
_LOGGED_AT_ONCE, _DRAWN_AT_ONCE, _LEAST_DRAWN = 256, 200, 64
"""Maximum rounds appended together. The model learns from a part before it decides the next one. So a part of labelled
rounds, which it draws itself, has at most a quarter of the rounds that it knows, or 64. Parts of 200 need about 60 % of
the processor time of parts of 64."""

_BYTES_AT_ONCE, _NUMBERS_AT_ONCE = 2**22, 1_000_000


class RoundImporter:
    """Imports rounds into models. Any worker can import any part of a source."""

    def __init__(self, sessions: SessionCache, environment: Environment) -> None:
        self._sessions = sessions
        self._environment = environment

    async def add(self, name: str, request: ImportRequest) -> ImportAnswer:
        """Import rounds that follow those that were imported from their source before. Repeats import nothing again.

        Raises:
            InvalidInputError: if a round does not fit the model; nothing is imported, unless the model changed
                between two batches.
            ImportPositionError: if rounds of the source before these have not been imported.
            LearnerFailedError: if the learner cannot decide.
            StoreError: if the store fails. Rounds may have been imported; repeat the request.
        """
        request_context.note_model(name)
        session = await self._sessions.find(name, "name")
        try:
            return await self._add(session, request)
        except ModelNotFoundError:
            self._sessions.drop(session)
            return await self._add(await self._sessions.find(name, "name"), request)

    async def sources(self, name: str) -> ImportList:
        """Return the sources of a model's imported rounds."""
        session = await self._sessions.find(name, "name")
        found = await self._environment.store.read_imports(session.model.key)
        return ImportList(
            imports=[
                ImportedSource(source=source, position=position, at=datetime.fromtimestamp(at, UTC))
                for source, position, at in found
            ]
        )

    async def _add(self, session: ModelSession, request: ImportRequest) -> ImportAnswer:
        replica, done, added, failed = session.replica, 0, 0, 0
        await replica.catch_up()
        model, rounds = await self._read(replica, request.rounds)
        while True:
            part = _next_part(model, rounds[done:], replica.round_count)
            imported = await self._append(replica, model, request.source, request.offset + done, part)
            if imported is not None and imported.appended:
                done, added, failed = done + len(part), added + len(part), 0
                session.note_rounds(imported.round_count)
            elif imported is not None and imported.position != request.offset + done:
                done = _place(request, imported.position, done)
            elif (failed := failed + 1) == _ATTEMPTS:
                raise StoreUnavailableError("the model changes too often; try again")
            else:
                await replica.catch_up()
                model, rounds = await self._read(replica, request.rounds)
            if imported is not None and done >= len(rounds):
                return _answer(request, imported, added)

    async def _read(self, replica: Replica, given: Sequence[ImportRound]) -> tuple[Model, list[ReadRound]]:
        """Read rounds with the current model; return it with them."""
        model, environment = replica.model, self._environment
        requests = [PredictionRequest(each.context, None, False, actions=each.actions) for each in given]
        cost = checking_cost(model, requests) + len(given) * costs.IMPORTED_ROUND
        now = environment.now()
        return model, await environment.compute.run_in_thread_if_costly(
            cost, model.name, read_rounds, model, given, now
        )

    async def _append(
        self, replica: Replica, model: Model, source: str, place: int, rounds: Sequence[ReadRound]
    ) -> Imported | None:
        """Import one part; return None if the model has changed since its rounds were read."""
        environment, run = self._environment, self._environment.compute.run_in_thread_if_costly
        try:
            predictions = await self._predictions(replica, model, rounds)
        except ImpossibleDecisionsError as error:
            raise LearnerFailedError(f"the learner of model {quoted(model.name)} failed; nothing is stored") from error
        if predictions is None:
            return None
        cost = predictions.contexts.values.size * costs.STORED_NUMBER + len(rounds) * costs.IMPORTED_ROUND
        blocks = await run(cost, model.name, encoded, model, predictions, rounds, environment.new_id)
        part = ImportPart(source, place, len(rounds), blocks, predictions.digest)
        return await environment.store.import_rounds(model.key, part, environment.now())

    async def _predictions(self, replica: Replica, model: Model, rounds: Sequence[ReadRound]) -> NewPredictions | None:
        """Decide with a state that includes every round; keep the answers of logged rounds."""
        environment, requests = self._environment, [each.request for each in rounds]
        run, cost, now = (
            environment.compute.run_in_thread_if_costly,
            model.choice.deciding_cost(requests),
            environment.now(),
        )
        async with replica.lock:
            await replica.catch_up_locked()
            if replica.model is not model:
                return None
            chance = chance_of(model, requests, environment.rng.random)
            basis = Basis(model, replica.state, replica.seen(), now, keep_seconds(model.definition))
            if rounds[0].answer is None:
                return await run(cost, model.name, drawn_predictions, basis, rounds, chance)
            residuals = environment.rng.random(len(rounds))
            return await run(cost, model.name, logged_predictions, basis, rounds, chance, residuals)


def _next_part(model: Model, rounds: Sequence[ReadRound], known: int) -> Sequence[ReadRound]:
    """Return the first rounds, all logged or all to be drawn, that may be imported together."""
    logged = rounds[0].answer is not None
    bounds = (
        model.choice.parts([each.request for each in rounds[:_LOGGED_AT_ONCE]])[0].stop,
        _LOGGED_AT_ONCE if logged else min(_DRAWN_AT_ONCE, max(_LEAST_DRAWN, known // 4)),
        _BYTES_AT_ONCE // model.choice.records.round_bytes,
        costs.IMPORTED_TOGETHER // costs.typical_decision(model.learner),
        _NUMBERS_AT_ONCE // max(1, len(model.definition.labels)),
    )
    most = max(1, min(bounds))
    end = next((i for i, each in enumerate(rounds[:most]) if (each.answer is not None) != logged), most)
    return rounds[:end]


def _place(request: ImportRequest, position: int, done: int) -> int:
    """Return how many rounds of a request have been imported; raise an error if earlier ones have not."""
    if position < request.offset + done:
        given, source = request.offset + done, quoted(request.source)
        detail = f"got {given}; {counted(position, 'rounds')} of source {source} have been imported: continue there"
        raise ImportPositionError(detail, "offset")
    return min(position - request.offset, len(request.rounds))


def _answer(request: ImportRequest, imported: Imported, added: int) -> ImportAnswer:
    status: Literal["recorded", "duplicate"] = "recorded" if added else "duplicate"
    return ImportAnswer(request.source, status, added, imported.position, imported.round_count)
