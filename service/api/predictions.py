"""`POST /predict`, one by one and in batches."""

from typing import Any

from fastapi import APIRouter

from service import errors
from service.api.access import check_model, own_names
from service.api.batches import check_size, each
from service.api.problems import responses
from service.rounds import RoundService
from service.schemas import (
    PredictAnswer,
    PredictBatchAnswer,
    PredictBatchRequest,
    PredictRequest,
)

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
    routes = APIRouter(tags=["rounds"])

    @routes.post("/predict", responses=_ERRORS)
    async def predict(request: PredictRequest) -> PredictAnswer:
        """Draws an answer from the model's distribution for a context, and stores the prediction."""
        check_model(request.model, "model")
        return await rounds.predict(request)

    @routes.post("/predict/batch", responses=responses(errors.BatchTooLargeError))
    async def predict_batch(batch: PredictBatchRequest) -> PredictBatchAnswer:
        """Predicts for many contexts at once: an answer or a problem for each, in order."""
        check_size(len(batch.contexts), max_items, "contexts")
        if batch.include_distribution and batch.model in own_names():
            await rounds.check_distributions(batch.model, len(batch.contexts))
        ids: list[Any] = [None] * len(batch.contexts) if batch.prediction_ids is None else batch.prediction_ids
        if len(ids) != len(batch.contexts):
            raise errors.IdentifierError(f"{len(ids)} ids for {len(batch.contexts)} contexts", "prediction_ids")

        async def one(context: Any, prediction_id: Any) -> PredictAnswer:
            item = {"model": batch.model, "context": context, "prediction_id": prediction_id}
            item["include_distribution"] = batch.include_distribution
            checked = PredictRequest.model_validate(item)
            check_model(batch.model, "model")
            return await rounds.predict(checked)

        calls = [one(context, given) for context, given in zip(batch.contexts, ids, strict=True)]
        return PredictBatchAnswer(predictions=await each(calls))

    return routes
