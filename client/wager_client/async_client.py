"""`AsyncWager`, the client for asyncio, with the methods of `Wager`."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from wager_client import operations
from wager_client.errors import ProblemError, WagerError
from wager_client.operations import Default, FeedbackItem, Operation, given, id_of, repeatable
from wager_client.problem_types import ModelExistsError
from wager_client.results import (
    Activation,
    Decision,
    Explanation,
    Feedback,
    Health,
    Model,
    ModelSummary,
    Prediction,
    Round,
    Slot,
)
from wager_client.sending import AsyncTransport, Configured, Options, async_transport, call_async

T = TypeVar("T")


class AsyncWager(Configured[AsyncTransport]):
    """A client of a Wager service for one event loop. `http_client` is an `AsyncClient` of httpx2 or httpx.

    The other arguments, the attributes and the errors are those of `Wager`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10.0,
        max_retries: int = 2,
        backoff: float = 0.1,
        http_client: AsyncTransport | None = None,
    ) -> None:
        options = Options.of(base_url, api_key, timeout, max_retries, backoff)
        super().__init__(options, async_transport(http_client), own=http_client is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the caller or another client owns them."""
        if self._own:
            await self._http.here().aclose()

    async def predict(
        self,
        model: str,
        context: object = None,
        *,
        actions: Sequence[Mapping[str, Any]] | None = None,
        eligible: Sequence[str] | None = None,
        top: int | None = None,
        prediction_id: str | None = None,
        activated: bool | None = None,
        baseline: str | None = None,
        policy: Mapping[str, float] | None = None,
        costs: Mapping[str, float] | None = None,
        cost_weight: float | None = None,
        include_distribution: bool | None = None,
        default: Default | None = None,
    ) -> Prediction:
        """Return the model's answer for a context. See `Wager.predict`."""
        item = given(
            context=context,
            actions=actions,
            eligible=eligible,
            top=top,
            prediction_id=prediction_id,
            activated=activated,
            baseline=baseline,
            policy=policy,
            costs=costs,
            cost_weight=cost_weight,
            include_distribution=include_distribution,
        )
        try:
            return await self._call(operations.predict(model, item, default))
        except WagerError as error:
            if default is None or not error.is_away:
                raise
        self.counts.defaults += 1
        return operations.default_prediction(model, default)

    async def predict_batch(self, model: str, items: Sequence[Mapping[str, Any]]) -> list[Prediction | ProblemError]:
        """Return a prediction or an error for each item. See `Wager.predict_batch`."""
        return await self._call(operations.predict_batch(model, items))

    async def feedback(
        self,
        prediction: Prediction | Slot | str,
        *,
        correct: bool | None = None,
        reward: float | None = None,
        true_label: str | None = None,
        true_labels: Sequence[str] | None = None,
    ) -> Feedback:
        """Send feedback for a prediction or one of its slots, or for the id of either. See `Wager.feedback`."""
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Feedback(None, "ignored")
        return await self._call(
            operations.feedback(FeedbackItem(prediction_id, correct, reward, true_label, true_labels))
        )

    async def feedback_batch(self, items: Iterable[FeedbackItem | Mapping[str, Any]]) -> list[Feedback | ProblemError]:
        """Send feedback for many predictions. See `Wager.feedback_batch`."""
        given = operations.feedback_items(items)
        ignored = sum(item.prediction_id is None for item in given)
        self.counts.ignored += ignored
        if ignored == len(given):
            return [operations.IGNORED] * ignored
        return await self._call(operations.feedback_batch(given))

    async def activate(self, prediction: Prediction | Slot | str) -> Activation:
        """Activate a prediction made with `activated=False`. See `Wager.activate`."""
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Activation(None, "ignored")
        return await self._call(operations.activate(prediction_id))

    async def create_model(self, name: str, *, exist_ok: bool = False, **definition: object) -> Model:
        """Create a model. See `Wager.create_model`."""
        operation = operations.create_model({"name": name, **given(**definition)})
        if not exist_ok:
            return await self._call(operation)
        try:
            return await self._call(repeatable(operation))
        except ModelExistsError:
            return await self.get_model(name)

    async def get_model(self, name: str) -> Model:
        """Return a model: its definition, its counts and its `etag`."""
        return await self._call(operations.get_model(name))

    async def list_models(
        self, *, search: str = "", sort: str = "name", page_size: int = 100
    ) -> AsyncIterator[ModelSummary]:
        """Yield the models that the API key can access and that match. See `Wager.list_models`."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self._call(operations.list_models(cursor, page_size, search, sort))
            for model in page.models:
                yield model
            cursor = page.next_cursor

    async def change_model(self, model: Model | str, changes: Mapping[str, Any], *, etag: str | None = None) -> Model:
        """Change the labels or the policies of a model. See `Wager.change_model`."""
        return await self._call(operations.change_model(model, changes, etag))

    async def delete_model(self, name: str) -> None:
        """Delete a model and its log."""
        await self._call(operations.delete_model(name))

    async def explain(
        self, model: str, context: object = None, *, actions: Sequence[Mapping[str, Any]] | None = None
    ) -> Explanation:
        """Return a model's features, scores and distribution for a context, without storing a prediction."""
        return await self._call(operations.explain(model, context, actions))

    async def prediction(self, prediction_id: str) -> Decision:
        """Return why a stored prediction has its answer, and what became of it.

        The service stores a prediction until an hour after its window, or longer. Raises `PredictionNotFoundError` for
        other ids, `WagerError` if the service refuses the request or is away.
        """
        return await self._call(operations.prediction(prediction_id))

    async def rounds(self, model: str, *, after: int = 0, page_size: int = 1000) -> AsyncIterator[Round]:
        """Yield the rounds of a model's log after round `after`, oldest first."""
        while page := await self._call(operations.rounds(model, after, page_size)):
            for each in page:
                yield each
            after = page[-1].round

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Send any other request to the service. See `Wager.request`."""
        return await self._call(
            operations.request(method, path, body, params=params or {}, headers=headers or {}, repeatable=repeatable)
        )

    async def health(self) -> Health:
        """Return the health of a ready service. See `Wager.health`."""
        return await self._call(operations.health())

    async def _call(self, operation: Operation[T]) -> T:
        return await call_async(operation, self._http.here(), self._options, self.counts)
