"""`Wager`, the synchronous client."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from wager_client.sending import Configured, Options, SyncTransport, call, sync_transport

T = TypeVar("T")


class Wager(Configured[SyncTransport]):
    """A client of a Wager service. Threads may share it. After a fork, it opens new connections.

    Args:
        base_url: URL of the service; by default `WAGER_BASE_URL`, otherwise http://127.0.0.1:8000.
        api_key: the API key; by default `WAGER_API_KEY`, otherwise none.
        timeout: seconds for a whole call, including retries and waits.
        max_retries: the maximum number of further attempts while the service is away, which means that it does not
            answer, or answers with status 408, 429, 500, 502, 503, 504 or 507. A request that is not safe to repeat is
            sent again only if the service cannot have executed it.
        backoff: mean seconds before the second attempt; the mean doubles with each attempt, up to 5 seconds. A
            `Retry-After` header of the service may prolong a wait.
        http_client: an `httpx2.Client` or `httpx.Client`, which the caller closes. Create both clients after any fork.

    Attributes:
        counts: the numbers of retries, of default answers, and of feedback and activations for default answers.

    Raises:
        ValueError: from any method, if an argument is out of range, or a request would contain NaN or infinity.
        TypeError: from any method, if an argument has the wrong type, such as None for a prediction.
        RuntimeError: from any method that needs a connection, in a fork of the process that passed `http_client`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10.0,
        max_retries: int = 2,
        backoff: float = 0.1,
        http_client: SyncTransport | None = None,
    ) -> None:
        options = Options.of(base_url, api_key, timeout, max_retries, backoff)
        super().__init__(options, sync_transport(http_client), own=http_client is None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the caller or another client owns them."""
        if self._own:
            self._http.here().close()

    def predict(
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
        """Return the model's answer for a context.

        Raises `WagerError` if the service refuses the request, or is away and there is no default.

        Args:
            model: the model's name.
            context: a dictionary of features, a list of numbers, or a dictionary with the lists `indices` and `values`;
                None for a model without features.
            actions: the actions to choose from, each with `id` and `features`, and optionally `tag` and `cost`, for a
                model with actions.
            eligible: the labels or action ids to choose from; None for all.
            top: how many different labels or actions to return, in order; None for a single answer.
            prediction_id: your own id for the prediction; None to have the client generate one.
            activated: False to have the service refuse feedback until `activate` is called.
            baseline: the label that you would choose yourself; a holdout with the policy `baseline` answers it.
            policy: the probability with which a model in the mode `logging` draws each label.
            costs: what labels cost in this request, in place of the model's costs.
            cost_weight: the reward that a cost of 1 is worth in this request, in place of the model's `cost_weight`.
            include_distribution: True to return the probability of each label.
            default: the answer if the service is away; with `top`, the answers in order.
        """
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
            return self._call(operations.predict(model, item, default))
        except WagerError as error:
            if default is None or not error.is_away:
                raise
        self.counts.defaults += 1
        return operations.default_prediction(model, default)

    def predict_batch(self, model: str, items: Sequence[Mapping[str, Any]]) -> list[Prediction | ProblemError]:
        """Return a prediction or an error for each item, in order.

        An item is a mapping with the arguments of `predict`, except `model` and `default`.
        """
        return self._call(operations.predict_batch(model, items))

    def feedback(
        self,
        prediction: Prediction | Slot | str,
        *,
        correct: bool | None = None,
        reward: float | None = None,
        true_label: str | None = None,
        true_labels: Sequence[str] | None = None,
    ) -> Feedback:
        """Send feedback for a prediction or one of its slots, or for the id of either.

        Pass `correct`, the true label or labels, or both; or only `reward`. Repeated feedback has the status
        `duplicate`. Feedback for a default answer is not sent, and has the status `ignored`. Raises `WagerError` if the
        service refuses the feedback or is away.
        """
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Feedback(None, "ignored")
        return self._call(operations.feedback(FeedbackItem(prediction_id, correct, reward, true_label, true_labels)))

    def feedback_batch(self, items: Iterable[FeedbackItem | Mapping[str, Any]]) -> list[Feedback | ProblemError]:
        """Send `FeedbackItem`s, or mappings with their fields; return a result or an error for each, in order."""
        given = operations.feedback_items(items)
        ignored = sum(item.prediction_id is None for item in given)
        self.counts.ignored += ignored
        if ignored == len(given):
            return [operations.IGNORED] * ignored
        return self._call(operations.feedback_batch(given))

    def activate(self, prediction: Prediction | Slot | str) -> Activation:
        """Activate a prediction made with `activated=False`, so that it accepts feedback. A repeat changes nothing.

        Raises `WagerError` if the service refuses the request or is away.
        """
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Activation(None, "ignored")
        return self._call(operations.activate(prediction_id))

    def create_model(self, name: str, *, exist_ok: bool = False, **definition: object) -> Model:
        """Create a model. `definition` has the other fields of `POST /models`, such as `labels` and `features`.

        If the name is taken, raises `ModelExistsError`, or with `exist_ok` returns that model, whatever its definition.
        Raises `WagerError` if the service refuses the request or is away.
        """
        operation = operations.create_model({"name": name, **given(**definition)})
        if not exist_ok:
            return self._call(operation)
        try:
            return self._call(repeatable(operation))
        except ModelExistsError:
            return self.get_model(name)

    def get_model(self, name: str) -> Model:
        """Return a model: its definition, its counts and its `etag`."""
        return self._call(operations.get_model(name))

    def list_models(self, *, search: str = "", sort: str = "name", page_size: int = 100) -> Iterator[ModelSummary]:
        """Yield the models that the API key can access and whose names contain `search`, in upper or lower case.

        `sort` is `name`, `traffic`, `reward` or `trouble`: see `GET /models`.
        """
        cursor: str | None = ""
        while cursor is not None:
            page = self._call(operations.list_models(cursor, page_size, search, sort))
            yield from page.models
            cursor = page.next_cursor

    def change_model(self, model: Model | str, changes: Mapping[str, Any], *, etag: str | None = None) -> Model:
        """Change the labels or policies of a model: pass the result of `get_model`, or the name and an `etag`.

        `changes` has fields of `PATCH /models/{name}`, such as `window_seconds`. Raises `ValueError` without an etag;
        `PreconditionFailedError` if the model is no longer the version with this etag (never for the etag `*`);
        `WagerError` if the service refuses the changes or is away.
        """
        return self._call(operations.change_model(model, changes, etag))

    def delete_model(self, name: str) -> None:
        """Delete a model and its log."""
        self._call(operations.delete_model(name))

    def explain(
        self, model: str, context: object = None, *, actions: Sequence[Mapping[str, Any]] | None = None
    ) -> Explanation:
        """Return a model's features, scores and distribution for a context, without storing a prediction."""
        return self._call(operations.explain(model, context, actions))

    def prediction(self, prediction_id: str) -> Decision:
        """Return why a stored prediction has its answer, and what became of it.

        The service stores a prediction until an hour after its window, or longer. Raises `PredictionNotFoundError` for
        other ids, `WagerError` if the service refuses the request or is away.
        """
        return self._call(operations.prediction(prediction_id))

    def rounds(self, model: str, *, after: int = 0, page_size: int = 1000) -> Iterator[Round]:
        """Yield the rounds of a model's log after round `after`, oldest first."""
        while page := self._call(operations.rounds(model, after, page_size)):
            yield from page
            after = page[-1].round

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Send any other request to the service, with the key, the retries and the errors of the other methods.

        `path` is, for example, `/models/news/statistics`; quote names in it with `urllib.parse.quote`. The body is
        a JSON value. Pass `repeatable=True` if a repeat is harmless: by default, only GET and HEAD are sent again.
        Returns the response as a JSON value, as bytes if it is not JSON, or None if it is empty. Raises `WagerError` if
        the service refuses the request or is away.
        """
        return self._call(
            operations.request(method, path, body, params=params or {}, headers=headers or {}, repeatable=repeatable)
        )

    def health(self) -> Health:
        """Return the health of a ready service. Raises `WagerError` if it is not ready."""
        return self._call(operations.health())

    def _call(self, operation: Operation[T]) -> T:
        return call(operation, self._http.here(), self._options, self.counts)
