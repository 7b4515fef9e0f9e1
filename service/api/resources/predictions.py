"""`POST /predict`, single and in batches."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import pydantic
from fastapi import APIRouter

from service import errors
from service.api.middleware.access import check_model, own_names
from service.api.responses.batches import READING_COST, answers_or_problems, check_size, read_each, read_together
from service.api.responses.direct_route import DirectRoute
from service.api.responses.problems import responses
from service.compute import Compute
from service.contexts.registry import GivenContext
from service.per_item import attempt_each
from service.rounds.prediction_requests import PredictionRequest, prediction_request
from service.rounds.use_cases import RoundService
from service.schemas.rounds import PredictAnswer, PredictBatchAnswer, PredictBatchRequest, PredictRequest

_NUMBER_COST = 50
_ITEM_COST = 2_000

_ERRORS = responses(
    errors.ModelNotFoundError,
    errors.ContextLengthError,
    errors.ContextIndexError,
    errors.NormExceededError,
    errors.NoDistributionError,
    errors.IdentifierError,
    errors.PredictionConflictError,
    errors.LearnerFailedError,
    errors.StoreCorruptError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)


def router(rounds: RoundService, compute: Compute, max_items: int) -> APIRouter:
    """Return the routes of predictions.

    Args:
        rounds: makes the predictions.
        compute: reads large batches.
        max_items: maximum predictions in a batch.
    """
    routes = APIRouter(tags=["rounds"], route_class=DirectRoute)

    @routes.post("/predict", responses=_ERRORS)
    async def predict(request: PredictRequest) -> PredictAnswer:
        """Draw an answer from the model's distribution for a context, and store the prediction."""
        check_model(request.model, "model")
        return await rounds.predict(request.model, prediction_request(request))

    @routes.post("/predict/batch", responses=responses(errors.BatchTooLargeError))
    async def predict_batch(batch: PredictBatchRequest) -> PredictBatchAnswer:
        """Predict for many contexts together. The response has a prediction or a problem for each, in order."""
        check_size(len(batch.contexts), max_items, "contexts")
        if batch.model in own_names():
            await rounds.check_answer_size(batch.model, len(batch.contexts), batch.include_distribution)
        ids = batch.prediction_ids
        if ids is not None and len(ids) != len(batch.contexts):
            raise errors.IdentifierError(
                f"got {len(ids)} ids for {len(batch.contexts)} contexts; send one id for each context", "prediction_ids"
            )
        try:
            check_model(batch.model, "model")
        except errors.ModelNotFoundError as refusal:
            return PredictBatchAnswer(answers_or_problems([refusal] * len(batch.contexts)))
        requests = await _read(compute, batch)
        return PredictBatchAnswer(answers_or_problems(await rounds.predict_all(batch.model, requests)))

    return routes


def _reading_cost(batch: PredictBatchRequest) -> int:
    """Return the cost of `_read_together`, in multiply-adds."""
    given: list[Any] = batch.contexts
    return sum([_NUMBER_COST * (10 + len(each)) for each in given if isinstance(each, list)]) + _ITEM_COST * len(given)


async def _read(compute: Compute, batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception]:
    """Return the prediction requests of a batch. This is much faster if all of them are valid."""
    cost = _reading_cost(batch)
    together = await compute.run_costly(cost, "", _read_together, batch)
    if together is not None:
        return together
    return await compute.run_costly(cost + READING_COST * len(batch.contexts), "", _read_each, batch)


def _read_together(batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception] | None:
    """Return the prediction requests of a batch; None if a context or an id is invalid."""
    if batch.prediction_ids is None:
        try:
            contexts = _CONTEXTS.validate_python(batch.contexts)
        except pydantic.ValidationError:
            return None
        return [PredictionRequest(context, None, batch.include_distribution) for context in contexts]
    requests = read_together(PredictRequest, _items(batch))
    return None if requests is None else attempt_each(prediction_request, requests)


def _read_each(batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception]:
    return attempt_each(prediction_request, read_each(PredictRequest, _items(batch)))


def _items(batch: PredictBatchRequest) -> list[dict[str, Any]]:
    """Return a batch as the bodies of single predictions."""
    common = {"model": batch.model, "include_distribution": batch.include_distribution}
    ids: Iterable[Any] = repeat(None) if batch.prediction_ids is None else batch.prediction_ids
    pairs = zip(batch.contexts, ids, strict=False)  # the caller checked that the lengths agree
    return [common | {"context": context, "prediction_id": given} for context, given in pairs]


_CONTEXTS = pydantic.TypeAdapter(list[GivenContext])
