"""Imports rounds into the log of a model, each exactly once."""

from collections.abc import Sequence
from datetime import UTC, datetime

from service import costs, kernels
from service.choice.requests import PredictionRequest
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import ImportPositionError, LearnerFailedError, StoreUnavailableError
from service.models.model import Model
from service.models.policies import keep_seconds
from service.replicas.replica import Replica
from service.rounds.deciding import Basis, ImpossibleDecisionsError, chance_of
from service.rounds.import_parsing import ParsedRound, drawn_predictions, encoded, logged_predictions, parse_rounds
from service.rounds.predictor import checking_cost
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import ImportAnswer, ImportedSource, ImportList, ImportRequest, ImportRound
from service.store.records.new_predictions import NewPredictions
from service.store.values import ImportBatch, Imported

_ATTEMPTS = 20  # maximum attempts to import a batch while others change the model
_LOGGED_AT_ONCE, _DRAWN_AT_ONCE, _KNOWN_PER_DRAWN = 256, 200, 32
# Maximum rounds appended together. The model learns from each batch before it decides the next. If it draws the answers
# itself, a batch has at most 200 rounds and at most 1/32 as many as the log (but at least 1), so the model learns about
# as fast as from one round at a time. Batches of 200 take about 60 % of the processor time of batches of 64.

_BYTES_AT_ONCE, _NUMBERS_AT_ONCE = 2**22, 1_000_000  # maximum bytes, and probabilities, of these rounds


class RoundImporter:
    """Imports rounds from named sources into models. Any worker can import any part of a source."""

    def __init__(self, sessions: SessionCache, environment: Environment) -> None:
        self._sessions, self._environment = sessions, environment

    async def add(self, name: str, request: ImportRequest) -> ImportAnswer:
        """Import those rounds of a request that were not imported before.

        Rounds are imported in batches. After an error, the batches before it remain imported.
        """
        return await self._sessions.use(name, "name", lambda session: self._add(session, request))

    async def sources(self, name: str) -> ImportList:
        """Return the sources of a model's imported rounds."""
        session = await self._sessions.find(name, "name")
        found = await self._environment.store.read_imports(session.model.key)
        imports = [ImportedSource(source=name, position=n, at=datetime.fromtimestamp(at, UTC)) for name, n, at in found]
        return ImportList(imports=imports)

    async def _add(self, session: ModelSession, request: ImportRequest) -> ImportAnswer:
        replica, done, added, failed = session.replica, 0, 0, 0
        await kernels.wait_for(replica.model)
        await replica.catch_up()
        model, rounds = await self._parse(replica, request.rounds)
        while True:
            batch = _next_batch(model, rounds[done:], replica.round_count)
            imported = await self._append(replica, model, request.source, request.offset + done, batch)
            if imported is not None and imported.appended:
                done, added, failed = done + len(batch), added + len(batch), 0
                session.upkeep.note_rounds(imported.round_count)
            elif imported is not None and imported.position != request.offset + done:
                done = _imported_before(request, imported.position, done)
            elif (failed := failed + 1) == _ATTEMPTS:
                raise StoreUnavailableError("the model changes too often; try again")
            else:
                await replica.catch_up()
                model, rounds = await self._parse(replica, request.rounds)
            if imported is not None and done >= len(rounds):
                state = imported.position, imported.round_count
                return ImportAnswer(request.source, "recorded" if added else "duplicate", added, *state)

    async def _parse(self, replica: Replica, rounds: Sequence[ImportRound]) -> tuple[Model, list[ParsedRound]]:
        model, environment = replica.model, self._environment
        requests = [PredictionRequest(each.context, None, False, actions=each.actions) for each in rounds]
        cost = checking_cost(model, requests) + len(rounds) * costs.IMPORTED_ROUND
        run, now = environment.compute.run_in_thread_if_costly, environment.now()
        return model, await run(cost, model.name, parse_rounds, model, rounds, now)

    async def _append(
        self, replica: Replica, model: Model, source: str, place: int, rounds: Sequence[ParsedRound]
    ) -> Imported | None:
        """Import one batch; return None if the model has changed since its rounds were parsed."""
        environment, run = self._environment, self._environment.compute.run_in_thread_if_costly
        try:
            predictions = await self._predictions(replica, model, rounds)
        except ImpossibleDecisionsError as error:
            failed = f"the learner of model {quoted(model.name)} failed"
            raise LearnerFailedError(f"{failed}; this request imported no round from offset {place} on") from error
        if predictions is None:
            return None
        cost = predictions.contexts.values.size * costs.STORED_NUMBER + len(rounds) * costs.IMPORTED_ROUND
        blocks = await run(cost, model.name, encoded, model, predictions, rounds, environment.new_id)
        batch = ImportBatch(source, place, len(rounds), blocks, predictions.digest)
        return await environment.store.import_rounds(model.key, batch, environment.now())

    async def _predictions(
        self, replica: Replica, model: Model, rounds: Sequence[ParsedRound]
    ) -> NewPredictions | None:
        """Decide rounds with a state that includes the whole log, but keep logged answers.

        Return None if the model has changed since the rounds were parsed.
        """
        environment, requests = self._environment, [each.request for each in rounds]
        run, cost = environment.compute.run_in_thread_if_costly, model.choice.deciding_cost(requests)
        async with replica.lock:
            await replica.catch_up_locked()
            if replica.model is not model:
                return None
            chance = chance_of(model, requests, environment.rng.random)
            keep, now = keep_seconds(model.definition), environment.now()
            basis = Basis(model, replica.state, replica.seen(), now, keep)
            if rounds[0].answer is None:
                return await run(cost, model.name, drawn_predictions, basis, rounds, chance)
            residuals = environment.rng.random(len(rounds))
            return await run(cost, model.name, logged_predictions, basis, rounds, chance, residuals)


def _next_batch(model: Model, rounds: Sequence[ParsedRound], known: int) -> Sequence[ParsedRound]:
    """Return the first rounds that may be imported together. Either all of them have logged answers, or none has."""
    logged = rounds[0].answer is not None
    bounds = (
        model.choice.slices([each.request for each in rounds[:_LOGGED_AT_ONCE]])[0].stop,
        _LOGGED_AT_ONCE if logged else min(_DRAWN_AT_ONCE, max(1, known // _KNOWN_PER_DRAWN)),
        _BYTES_AT_ONCE // model.choice.records.round_bytes,
        costs.IMPORTED_TOGETHER // costs.typical_decision(model.learner),
        _NUMBERS_AT_ONCE // max(1, len(model.definition.labels)),
    )
    most = max(1, min(bounds))
    end = next((i for i, each in enumerate(rounds[:most]) if (each.answer is not None) != logged), most)
    return rounds[:end]


def _imported_before(request: ImportRequest, position: int, done: int) -> int:
    """Return how many rounds of a request have been imported; raise `ImportPositionError` if earlier ones have not."""
    if position < request.offset + done:
        most = f"{position}, the number of rounds imported from source {quoted(request.source)} so far"
        raise ImportPositionError(f"got {request.offset + done}; must be at most {most}", "offset")
    return min(position - request.offset, len(request.rounds))
