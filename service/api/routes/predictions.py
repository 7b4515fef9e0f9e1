"""`POST /predict`, single and in batches, `GET /predictions/{prediction_id}`, and `POST /models/{name}/explain`."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Annotated, Any

from fastapi import APIRouter, Path

from service import costs, errors
from service.api.middleware.access import check_model, check_room, own_names
from service.api.responses.batches import answers_or_problems, check_size, read_each, read_together
from service.api.responses.problems import responses
from service.api.responses.routes import JsonRoute, StrictRoute
from service.api.routes.models import Name
from service.choice.requests import NO_OPTIONS, Options, PredictionRequest, prediction_item
from service.compute import Compute
from service.contexts.registry import read_contexts
from service.error_messages.patterns import QUALIFIED_ID
from service.error_messages.values import counted
from service.json_values import JsonObject
from service.per_item import map_results
from service.prediction_id import PredictionId
from service.registry.explained_decisions import ExplainedDecisions
from service.rounds.use_cases import RoundService
from service.schemas.decisions import DecisionAnswer
from service.schemas.reports import ExplainAnswer, ExplainRequest
from service.schemas.rounds import PredictAnswer, PredictBatchAnswer, PredictBatchRequest, PredictItem, PredictRequest
from service.tuples import named_tuples

_ERRORS = responses(
    *(*errors.WRITING_ERRORS, *errors.REQUEST_ERRORS, errors.ModeError, errors.NoDistributionError),
    *(errors.TopUnsupportedError, errors.TooFewChoicesError, errors.TopTooLargeError, errors.IdentifierError),
    *(errors.PredictionConflictError, errors.HistoryLostError, errors.OpenPredictionsFullError),
)


def router(rounds: RoundService, compute: Compute, max_items: int) -> APIRouter:
    """Return the routes of predictions."""
    routes = APIRouter(tags=["rounds"], route_class=JsonRoute)

    @routes.post("/predict", responses=_ERRORS)
    async def predict(request: PredictRequest) -> PredictAnswer:
        """Draw an answer from the model's distribution for a context, and store the prediction."""
        check_model(request.model, "model")
        check_room()
        return await rounds.predict(request.model, prediction_item(request, request.model))

    @routes.post(
        "/predict/batch",
        responses=responses(errors.BatchTooLargeError, errors.IdentifierError, errors.StoreCorruptError),
    )
    async def predict_batch(batch: PredictBatchRequest) -> PredictBatchAnswer:
        """Predict for many contexts together. The response has a prediction or a problem for each, in order."""
        check_room()
        given = _given(batch)
        check_size(len(given), max_items, "contexts" if batch.items is None else "items")
        _check_slots(batch, max_items)
        if batch.model in own_names():
            await rounds.check_answer_size(batch.model, len(given), _lists_distributions(batch))
        ids = batch.prediction_ids
        if ids is not None and len(ids) != len(given):
            sizes = f"got {counted(len(ids), 'ids')} for {counted(len(given), 'contexts')}"
            raise errors.IdentifierError(f"{sizes}; send one id for each context", "prediction_ids")
        try:
            check_model(batch.model, "model")
        except errors.ModelNotFoundError as refusal:
            return PredictBatchAnswer(answers_or_problems([refusal] * len(given)))
        requests = await _read(compute, batch)
        return PredictBatchAnswer(answers_or_problems(await rounds.predict_all(batch.model, requests)))

    return routes


def _given(batch: PredictBatchRequest) -> list[Any]:
    if batch.items is None:
        if batch.contexts is None:
            raise errors.MissingFieldError("missing; send contexts or items", "contexts")
        return batch.contexts
    if batch.contexts is not None:
        raise errors.InvalidInputError("got contexts as well; send contexts or items", "items")
    if batch.prediction_ids is not None:
        raise errors.InvalidInputError("got items as well; each item has its own prediction_id", "prediction_ids")
    return batch.items


def _check_slots(batch: PredictBatchRequest, most: int) -> None:
    given: list[Any] = _given(batch)
    asked = [batch.top] * len(given)
    if batch.items is not None:
        asked = [each.get("top", batch.top) if isinstance(each, dict) else None for each in given]
    slots = sum([max(0, top) for top in asked if type(top) is int])
    if slots > most:
        detail = f"got {slots:,} slots in all predictions; a request may have at most {most:,} of them"
        raise errors.BatchTooLargeError(detail, "top" if all(top == batch.top for top in asked) else "items")


def _lists_distributions(batch: PredictBatchRequest) -> bool:
    items: list[Any] = batch.items or []
    asked = [isinstance(item, dict) and item.get("include_distribution") is True for item in items]
    return batch.include_distribution or any(asked)


def _reading_cost(batch: PredictBatchRequest) -> int:
    """Return the cost of `_read_together`, in multiply-adds."""
    given = _given(batch)
    numbers = [each.get("context") if isinstance(each, dict) and batch.items is not None else each for each in given]
    counts = [10 + len(each) for each in numbers if isinstance(each, list)]  # a list costs as much as 10 numbers
    return costs.BATCH_NUMBER * sum(counts) + costs.BATCH_ITEM * len(given)


async def _read(compute: Compute, batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception]:
    """Return, for each item of a batch, its request or the error that refuses it. Much faster if all are valid."""
    cost = _reading_cost(batch)
    together = await compute.run_in_thread_if_costly(cost, "", _read_together, batch)
    if together is not None:
        return together
    return await compute.run_in_thread_if_costly(cost + costs.SINGLE_ITEM * len(_given(batch)), "", _read_each, batch)


def _read_together(batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception] | None:
    if batch.contexts is not None and batch.prediction_ids is None:
        contexts = read_contexts(batch.contexts)
        if contexts is None:
            return None
        options = Options(activated=batch.activated, top=batch.top)
        options = NO_OPTIONS if options == NO_OPTIONS else options
        rows = [(context, None, batch.include_distribution, options, None, None, None) for context in contexts]
        return named_tuples(PredictionRequest, rows)
    requests = read_together(PredictItem, _items(batch))
    return None if requests is None else map_results(partial(prediction_item, model=batch.model), requests)


def _read_each(batch: PredictBatchRequest) -> Sequence[PredictionRequest | Exception]:
    return map_results(partial(prediction_item, model=batch.model), read_each(PredictItem, _items(batch)))


def _items(batch: PredictBatchRequest) -> list[Any]:
    common: JsonObject = {"include_distribution": True} if batch.include_distribution else {}
    if not batch.activated:
        common["activated"] = False
    if batch.top is not None:
        common["top"] = batch.top
    if batch.contexts is None:
        return [common | each if isinstance(each, dict) else each for each in _given(batch)]
    ids: Iterable[Any] = repeat(None) if batch.prediction_ids is None else batch.prediction_ids
    pairs = zip(batch.contexts, ids, strict=False)  # `repeat` is endless; `predict_batch` checked the number of ids
    return [common | {"context": context, "prediction_id": given} for context, given in pairs]


_Id = Annotated[str, Path(pattern=QUALIFIED_ID, description="`<model>:<id>`, as `/predict` returns it.")]


def decisions_router(decisions: ExplainedDecisions) -> APIRouter:
    """Return the route that explains stored predictions."""
    routes = APIRouter(tags=["rounds"], route_class=StrictRoute)

    @routes.get(
        "/predictions/{prediction_id:path}",  # ids may contain slashes
        responses=responses(
            *(*errors.READING_ERRORS, errors.PredictionNotFoundError, errors.HistoryLostError),
            errors.LearnerNotReadyError,
        ),
    )
    async def explain_prediction(prediction_id: _Id) -> DecisionAnswer:
        """Explain a stored prediction: what the model knew, what it chose from, what it drew, and what became of it.

        A prediction is stored until an hour after its window, or longer. Its distribution is recomputed with the state
        that decided, from the nearest snapshot and at most 10,000 rounds of the log.
        """
        parsed = PredictionId.parse(prediction_id)
        check_model(parsed.model, "prediction_id")
        return await decisions.explain(parsed)

    return routes


def explanation_router(rounds: RoundService) -> APIRouter:
    """Return the route of explanations."""
    routes = APIRouter(tags=["models"], route_class=JsonRoute)

    @routes.post(
        "/models/{name}/explain",
        responses=responses(
            *(*errors.READING_ERRORS, *errors.CONTEXT_ERRORS, *errors.ACTIONS_ERRORS),
            *(errors.BatchTooLargeError, errors.LearnerNotReadyError),
        ),
    )
    async def explain(name: Name, request: ExplainRequest) -> ExplainAnswer:
        """Show the vector that the learner sees, and what each feature adds to the score of each label or action."""
        return await rounds.explain(name, request)

    return routes
