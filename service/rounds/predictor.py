"""Predicting: concurrent requests are gathered, decided, drawn, stored, and answered together."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

from service.candidates.requests import chunks
from service.compute import INLINE_COST
from service.environment import Environment
from service.errors import PredictionConflictError, StoreUnavailableError, WagerError
from service.input_errors import InvalidInputError
from service.models.model import Model
from service.per_item import apply_to_valid, attempt_each, indices_of
from service.replicas.folding.reading import TYPICAL_NONZEROS
from service.replicas.replica import Replica
from service.replicas.upkeep import Upkeep
from service.rounds.batching import ITEMS_AT_ONCE, Batcher
from service.rounds.deciding import Decider, Drawn
from service.rounds.isolation import ImpossibleDecisionsError, without_impossible
from service.rounds.prediction_requests import (
    PredictionBatch,
    PredictionRequest,
    all_fit,
    check,
    check_again,
    checking_cost,
    gather,
    gathering_cost,
    held_out,
    read,
)
from service.rounds.responses import answer_batch, answer_repeated
from service.schemas.rounds import PredictAnswer
from service.store.base import Block, Seen, Tail

_ATTEMPTS = 3
"""Attempts to store predictions. The first may require that no newer round exists; retries only require an intact
log."""

_NUMBER_COST = 30
"""Cost of converting one number of a request or a response, in multiply-adds."""

_REPEATED_COST = 80_000
"""Cost of reading one stored prediction, in multiply-adds."""

_BYTES_AT_ONCE = 2**23
"""Maximum bytes of predictions stored together; the store needs about ten milliseconds for them."""

_NUMBERS_AT_ONCE = 4_000_000
"""Maximum probabilities computed together. Bounds the memory of a batch with many labels: 32 MB per array."""

_COST_AT_ONCE = 2_000_000_000
"""Maximum multiply-adds per batch, about two seconds. Then other requests for the model get a turn."""


class _ModelChangedError(Exception):
    """The model has changed since the requests of a batch were checked."""


class Predictor:
    """Makes the predictions of one model in coalesced batches.

    Args:
        replica: the replica whose state decides.
        environment: provides the store, random numbers and worker threads.
        upkeep: is notified of each batch.
    """

    def __init__(self, replica: Replica, environment: Environment, upkeep: Upkeep) -> None:
        self._replica = replica
        self._first_model = replica.model
        self._environment = environment
        self._upkeep = upkeep
        self._decider = Decider(replica, environment)
        self._expects_rounds = False
        self._batcher: Batcher[PredictionRequest, PredictAnswer] = Batcher(self._predict_each, self._most_together)

    @property
    def idle(self) -> bool:
        """Whether no request is queued or in flight."""
        return self._batcher.idle

    def predict(self, request: PredictionRequest) -> Awaitable[PredictAnswer]:
        """Return the prediction after it is stored. The awaitable raises the store's errors.

        Raises:
            InvalidInputError: if `check` refuses the request; the awaitable may raise it as well.
        """
        model = self._replica.model
        if request.actions is not None or request.id is not None or checking_cost(model, [request]) >= INLINE_COST:
            return self._predict_alone(request)
        try:
            return self._batcher.submit(check(model, request))
        except InvalidInputError:
            return self._predict_current(request)

    async def _predict_current(self, request: PredictionRequest) -> PredictAnswer:
        """Predict with the current model: another worker may have changed it, or created it again."""
        await self._replica.catch_up()
        return await self._batcher.submit(check(self._replica.model, request))

    async def _predict_alone(self, request: PredictionRequest) -> PredictAnswer:
        """Predict where reading may take long, as with actions, or with an id, which may have an answer."""
        (answer,) = await self.predict_all([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def predict_all(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        """Handle each request as `predict` does; return errors instead of raising them."""
        checked = await self._check_each(requests)
        if indices_of(checked, InvalidInputError):
            try:
                await self._replica.catch_up()
            except WagerError as error:
                return [error] * len(requests)
            checked = await self._check_each(requests)
        return await self._with_repeated(requests, await apply_to_valid(self._batcher.submit_all, checked))

    async def _with_repeated(
        self, requests: Sequence[PredictionRequest], answers: Sequence[PredictAnswer | Exception]
    ) -> list[PredictAnswer | Exception]:
        """Return the answers, with the stored ones of requests that were answered before and are refused now."""
        refused = {
            i: answer
            for i in indices_of(answers, InvalidInputError)
            if isinstance(answer := answers[i], InvalidInputError)
        }
        if not refused:
            return list(answers)
        repeated = await asyncio.gather(*(self._repeated(requests[i], refusal) for i, refusal in refused.items()))
        found = dict(zip(refused, repeated, strict=True))
        return [found.get(i, answer) for i, answer in enumerate(answers)]

    async def _repeated(self, request: PredictionRequest, refusal: InvalidInputError) -> PredictAnswer | Exception:
        """Return the stored answer to a refused request if it was answered before a change; else the refusal."""
        model, run = self._replica.model, self._environment.compute.run_costly
        if request.id is None:
            return refusal
        cost = checking_cost(model, [request])
        (asked,) = await run(cost, model.name, attempt_each, partial(read, model), [request])
        if isinstance(asked, Exception):  # no change made it so
            return refusal
        record = await self._environment.store.read_block(model.key, request.id.block)
        if record is None:
            return refusal
        answer = await run(cost, model.name, answer_repeated, model, asked, record)
        return refusal if isinstance(answer, PredictionConflictError) else answer

    async def _check_each(self, requests: Sequence[PredictionRequest]) -> list[PredictionRequest | Exception]:
        model, run = self._replica.model, self._environment.compute.run_costly
        if all_fit(model, requests):
            return list(requests)
        return await run(checking_cost(model, requests), model.name, attempt_each, partial(check, model), requests)

    async def _predict_each(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        parts = self._parts(requests)
        if len(parts) == 1:
            return await self._predict_alike(requests)
        answers: dict[int, PredictAnswer | Exception] = {}
        for part in parts:
            answers.update(zip(part, await self._predict_alike([requests[i] for i in part]), strict=True))
        return [answers[i] for i in range(len(requests))]

    def _parts(self, requests: Sequence[PredictionRequest]) -> list[Sequence[int]]:
        """Divide requests into parts that may be decided together; return their positions."""
        tops = [request.options.top for request in requests]
        sets = [request.candidates for request in requests if request.candidates is not None]
        if not sets and not any(tops):
            return [range(len(requests))]
        parts = list[Sequence[int]]()
        for top in dict.fromkeys(tops):
            alike = [i for i, each in enumerate(tops) if each == top]
            most = max(1, self._most_together() // (top or 1))
            for start in range(0, len(alike), most):
                part = alike[start : start + most]
                parts += chunks(part, [sets[i] for i in part]) if sets else [part]
        return parts

    async def _predict_alike(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        """Predict requests with the same number of slots together."""
        model = self._replica.model
        if model is not self._first_model:  # it may have changed after the requests were checked
            checked = attempt_each(partial(check_again, model), requests)
            if any(isinstance(each, Exception) for each in checked):
                return await apply_to_valid(self._predict_alike, checked)
        try:
            return await self._predict(model, requests)
        except ImpossibleDecisionsError as error:
            return await without_impossible(self._predict_alike, requests, error, self._replica.model.name)
        except _ModelChangedError:
            return await self._predict_alike(requests)

    async def _predict(self, model: Model, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        run = self._environment.compute.run_costly
        cost = gathering_cost(model, requests)
        batch = await run(cost, model.name, gather, model, requests, self._environment.new_id)
        drawn, there = await self._draw_and_store(model, batch)
        self._upkeep.note_predictions()
        cost = _answering_cost(model, requests, there)
        return await run(cost, model.name, answer_batch, model, batch, drawn, there)

    async def _draw_and_store(self, model: Model, batch: PredictionBatch) -> tuple[Drawn, list[bytes | None]]:
        """Draw with a state that is new enough for the requests, and store the predictions.

        Returns:
            The drawn predictions and, for each block, the record already stored under its name, or None.

        Raises:
            _ModelChangedError: if the requests were gathered for the model before or after a change.
        """
        replica = self._replica
        async with replica.lock:
            seen = await self._new_enough()
            for _ in range(_ATTEMPTS):
                if replica.model is not model:  # not by the number of changes: the store may have lost one
                    raise _ModelChangedError
                drawn = await (self._decider.choose(batch) if model.vectors else self._decider.draw(batch))
                there = await self._store(model, batch, drawn, seen)
                if not isinstance(there, Tail):
                    return drawn, there
                self._expects_rounds = True
                await replica.catch_up_locked(there)  # newer feedback arrived: learn from it, then draw again
                seen = replica.seen._replace(newer=True)
        raise StoreUnavailableError("the store repeatedly lost rounds; try again")

    async def _new_enough(self) -> Seen:
        """Return what the state has seen, and whether it includes all rounds that it must include.

        If not, the store compares the state with the log when it stores the predictions. A comparison that fails costs
        a draw, so the log is read first if it probably has news. Call with the replica's lock held.
        """
        replica = self._replica
        includes_all = replica.is_newer_than(replica.model.definition.freshness.max_lag_seconds)
        if not includes_all and (replica.state is None or self._expects_rounds or self._upkeep.rounds_waiting):
            before = replica.round_count
            await replica.catch_up_locked()
            self._expects_rounds, includes_all = replica.round_count > before, True
        return replica.seen._replace(newer=includes_all)

    async def _store(self, model: Model, batch: PredictionBatch, drawn: Drawn, seen: Seen) -> list[bytes | None] | Tail:
        """Store the predictions; if the state misses rounds, store nothing and return the tail."""
        environment = self._environment
        holdout, fingerprints = drawn.predictions.holdout, batch.fingerprints
        if holdout is not None:
            first = holdout[batch.bounds[:-1]].tolist()
            fingerprints = [held_out(each) if held else each for each, held in zip(fingerprints, first, strict=True)]
        cost, args = drawn.predictions.contexts.values.size * _NUMBER_COST, (batch.bounds, batch.tokens, fingerprints)
        encode = model.format.encode_blocks
        records = await environment.compute.run_costly(cost, model.name, encode, drawn.predictions, *args)
        blocks = list(map(Block, batch.blocks, records))
        return await environment.store.add_predictions(model.key, blocks, model.keep_seconds, seen)

    def _most_together(self) -> int:
        """Return the maximum batch size. A change of the model may change it."""
        model = self._replica.model
        cost = model.learner.decide_cost(min(model.learner.problem.n_features, TYPICAL_NONZEROS))
        bounds = (
            ITEMS_AT_ONCE,
            _NUMBERS_AT_ONCE // max(1, len(model.definition.labels)),
            _COST_AT_ONCE // cost,
            _BYTES_AT_ONCE // model.format.round_bytes,
        )
        return max(1, min(bounds))


def _answering_cost(model: Model, requests: Sequence[PredictionRequest], there: Sequence[bytes | None]) -> int:
    """Return the cost of `answer_batch`, in multiply-adds: it lists distributions and reads stored predictions."""
    listed = sum([request.include_distribution for request in requests]) * len(model.definition.labels)
    return listed * _NUMBER_COST + (len(there) - there.count(None)) * _REPEATED_COST
