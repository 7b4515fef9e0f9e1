"""Predicting: concurrent requests are gathered, decided, drawn, stored, and answered together."""

import asyncio
from collections.abc import Sequence
from functools import partial

from service.environment import Environment
from service.errors import StoreUnavailableError
from service.models.model import Model
from service.per_item import apply_to_valid, attempt_each
from service.replicas.replica import TYPICAL_NONZEROS, Replica
from service.replicas.upkeep import Upkeep
from service.rounds.batching import ITEMS_AT_ONCE, Batcher
from service.rounds.deciding import Decider, Drawn
from service.rounds.isolation import ImpossibleDecisionsError, without_impossible
from service.rounds.prediction_requests import PredictionBatch, PredictionRequest, check, gather
from service.rounds.responses import answer_batch
from service.schemas.rounds import PredictAnswer
from service.store.base import Block, Seen, Tail

_ATTEMPTS = 3
"""Attempts to store predictions. The first requires that no newer feedback exists; retries only require an intact
log."""

_NUMBER_COST = 30
"""Cost of converting one number of a request or a response, in multiply-adds."""

_BYTES_AT_ONCE = 2**23
"""Maximum bytes of predictions stored together; the store needs about ten milliseconds for them."""

_NUMBERS_AT_ONCE = 4_000_000
"""Maximum probabilities computed together. Bounds the memory of a batch with many labels: 32 MB per array."""

_COST_AT_ONCE = 2_000_000_000
"""Maximum multiply-adds per batch, about two seconds. Then other requests for the model get a turn."""


class Predictor:
    """Makes the predictions of one model in coalesced batches.

    Args:
        replica: the replica whose state decides.
        environment: provides the store, random numbers and worker threads.
        upkeep: is notified of each batch.
    """

    def __init__(self, replica: Replica, environment: Environment, upkeep: Upkeep) -> None:
        self._model = replica.model
        self._replica = replica
        self._environment = environment
        self._upkeep = upkeep
        self._decider = Decider(replica, environment)
        most = _most_together(replica.model)
        self._batcher: Batcher[PredictionRequest, PredictAnswer] = Batcher(self._predict_each, most)

    @property
    def idle(self) -> bool:
        """Whether no request is queued or in flight."""
        return self._batcher.idle

    def predict(self, request: PredictionRequest) -> asyncio.Future[PredictAnswer]:
        """Return a future of the prediction.

        The future resolves after the prediction is stored. It raises the store's errors.

        Raises:
            InvalidInputError: if `check` refuses the request.
        """
        return self._batcher.submit(check(self._model, request))

    async def predict_all(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        """Handle each request as `predict` does; return errors instead of raising them."""
        return await apply_to_valid(self._batcher.submit_all, attempt_each(partial(check, self._model), requests))

    async def _predict_each(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        try:
            return await self._predict(requests)
        except ImpossibleDecisionsError as error:
            return await without_impossible(self._predict_each, requests, error, self._model.name)

    async def _predict(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        model, run = self._model, self._environment.compute.run_costly
        listed = sum([request.include_distribution for request in requests]) * len(model.definition.labels)
        given = sum([model.contexts.size(request.context) for request in requests])
        batch = await run(given * _NUMBER_COST, model.name, gather, model, requests, self._environment.new_id)
        drawn, there = await self._draw_and_store(batch)
        self._upkeep.note_predictions()
        return await run(listed * _NUMBER_COST, model.name, answer_batch, model, batch, drawn, there)

    async def _draw_and_store(self, batch: PredictionBatch) -> tuple[Drawn, list[bytes | None]]:
        """Draw with a state that includes every round, and store the predictions.

        Returns:
            The drawn predictions and, for each block, the record already stored under its name, or None.
        """
        replica = self._replica
        async with replica.lock:
            if replica.state is None:
                await replica.catch_up_locked()
            seen = replica.seen
            for _ in range(_ATTEMPTS):
                drawn = await self._decider.draw(batch.contexts)
                there = await self._store(batch, drawn, seen)
                if not isinstance(there, Tail):
                    return drawn, there
                await replica.catch_up_locked(there)  # newer feedback arrived: learn from it, then draw again
                seen = replica.seen._replace(newer=True)
        raise StoreUnavailableError("the store repeatedly lost rounds; try again")

    async def _store(self, batch: PredictionBatch, drawn: Drawn, seen: Seen) -> list[bytes | None] | Tail:
        """Store the predictions; if the state misses rounds, store nothing and return the tail."""
        model, environment = self._model, self._environment
        cost, args = batch.contexts.values.size * _NUMBER_COST, (batch.bounds, batch.tokens, batch.fingerprints)
        encode = model.format.encode_blocks
        records = await environment.compute.run_costly(cost, model.name, encode, drawn.predictions, *args)
        blocks = list(map(Block, batch.blocks, records))
        return await environment.store.add_predictions(model.key, blocks, model.keep_seconds, seen)


def _most_together(model: Model) -> int:
    """Return the maximum batch size for a model."""
    definition = model.definition
    cost = model.learner.decide_cost(min(definition.features.size, TYPICAL_NONZEROS))
    bounds = (
        ITEMS_AT_ONCE,
        _NUMBERS_AT_ONCE // len(definition.labels),
        _COST_AT_ONCE // cost,
        _BYTES_AT_ONCE // model.format.round_bytes,
    )
    return max(1, min(bounds))
