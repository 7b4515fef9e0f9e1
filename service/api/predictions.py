"""`POST /predict`, one by one and in batches."""

from functools import partial
from typing import Any

from fastapi import APIRouter

from service import errors
from service.api.access import check_model, own_names
from service.api.batches import check_size, read_each, told
from service.api.direct_route import DirectRoute
from service.api.problems import responses
from service.rounds import RoundService
from service.schemas import (
    PredictAnswer,
    PredictBatchAnswer,
    PredictBatchRequest,
    PredictRequest,
)
from service.together import attempt_each, together

_ERRORS = responses(
    errors.ModelNotFoundError,
    errors.ContextLengthError,
    errors.ContextIndexError,
    errors.NormExceededError,
    errors.NoDistributionError,
    errors.IdentifierError,
    errors.PredictionConflictError,
    errors.StoreFullError,
)


def router(rounds: RoundService, max_items: int) -> APIRouter:
    """The routes of predictions."""
    routes = APIRouter(tags=["rounds"], route_class=DirectRoute)

    @routes.post("/predict", responses=_ERRORS)
    async def predict(request: PredictRequest) -> PredictAnswer:
        """Draws an answer from the model's distribution for a context, and stores the prediction."""
        return await rounds.predict(_allowed(request))

    @routes.post("/predict/batch", responses=responses(errors.BatchTooLargeError))
    async def predict_batch(batch: PredictBatchRequest) -> PredictBatchAnswer:
        """Predicts for many contexts at once: an answer or a problem for each, in order."""
        check_size(len(batch.contexts), max_items, "contexts")
        if batch.include_distribution and batch.model in own_names():
            await rounds.check_distributions(batch.model, len(batch.contexts))
        ids: list[Any] = [None] * len(batch.contexts) if batch.prediction_ids is None else batch.prediction_ids
        if len(ids) != len(batch.contexts):
            raise errors.IdentifierError(f"{len(ids)} ids for {len(batch.contexts)} contexts", "prediction_ids")

        common = {"model": batch.model, "include_distribution": batch.include_distribution}
        items = [
            common | {"context": context, "prediction_id": given}
            for context, given in zip(batch.contexts, ids, strict=True)
        ]
        answers = await together(
            partial(rounds.predict_all, batch.model), attempt_each(_allowed, read_each(PredictRequest, items))
        )
        return PredictBatchAnswer(predictions=told(answers))

    return routes


def _allowed(request: PredictRequest) -> PredictRequest:
    check_model(request.model, "model")
    return request
