"""`POST /predict`, one by one and in batches."""

import contextlib
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import pydantic
from fastapi import APIRouter

from service import errors
from service.api.middleware.access import check_model, own_names
from service.api.responses.batches import answers_or_problems, check_size, read_each
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
    """The routes of predictions.

    Args:
        rounds: makes them.
        compute: reads large batches.
        max_items: the most predictions of a batch.
    """
    routes = APIRouter(tags=["rounds"], route_class=DirectRoute)

    @routes.post("/predict", responses=_ERRORS)
    async def predict(request: PredictRequest) -> PredictAnswer:
        """Draws an answer from the model's distribution for a context, and stores the prediction."""
        check_model(request.model, "model")
        return await rounds.predict(request.model, prediction_request(request))

    @routes.post("/predict/batch", responses=responses(errors.BatchTooLargeError))
    async def predict_batch(batch: PredictBatchRequest) -> PredictBatchAnswer:
        """Predicts for many contexts at once: an answer or a problem for each, in order."""
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
        requests = await compute.run_costly(_reading_cost(batch), "", _prediction_requests, batch)
        return PredictBatchAnswer(answers_or_problems(await rounds.predict_all(batch.model, requests)))

    return routes


def _reading_cost(batch: PredictBatchRequest) -> int:
    """Multiply-adds in the time that `_prediction_requests` takes."""
    given: list[Any] = batch.contexts
    return sum([_NUMBER_COST * (10 + len(each)) for each in given if isinstance(each, list)]) + _ITEM_COST * len(given)


def _prediction_requests(batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception]:
    """What a batch asks for. Contexts are read in one go, which is much faster, where none is wrong."""
    if batch.prediction_ids is None:
        with contextlib.suppress(pydantic.ValidationError):
            contexts = _CONTEXTS.validate_python(batch.contexts)
            return [PredictionRequest(context, None, batch.include_distribution) for context in contexts]
    common = {"model": batch.model, "include_distribution": batch.include_distribution}
    ids: Iterable[Any] = repeat(None) if batch.prediction_ids is None else batch.prediction_ids
    pairs = zip(batch.contexts, ids, strict=False)  # their number is checked
    items = [common | {"context": context, "prediction_id": given} for context, given in pairs]
    return attempt_each(prediction_request, read_each(PredictRequest, items))


_CONTEXTS = pydantic.TypeAdapter(list[GivenContext])
