"""`Wager`, the client for code without asyncio."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from wager_client import model_operations, operations
from wager_client.errors import ProblemError, WagerError
from wager_client.operation import Operation, given, repeatable
from wager_client.operations import Default, FeedbackItem, id_of
from wager_client.problem_types import ModelExistsError
from wager_client.results import (
    Activation,
    Explanation,
    Feedback,
    Health,
    Model,
    ModelSummary,
    Prediction,
    Round,
    Slot,
)
from wager_client.sending import call
from wager_client.transports import Counts, Options, SyncTransport, sync_transport

T = TypeVar("T")


class Wager:
    """A client of a Wager service. Threads may share it. In a fork, it opens new connections.

    Args:
        base_url: of the service; by default `WAGER_BASE_URL`, or else http://127.0.0.1:8000.
        api_key: by default `WAGER_API_KEY`, or else none.
        timeout: seconds for a whole call, with its retries and waits.
        max_retries: attempts after the first one, if the service is away.
        backoff: seconds before the second attempt, on average; they double with each attempt, up to 5.
        http_client: an `httpx2.Client` or `httpx.Client` to use; it stays open when this client closes.
            Make it, and this client, after a fork.

    Attributes:
        counts: retries, default answers, and feedback ignored for them.

    Raises:
        ValueError: from the constructor, if an option is out of range.
        TypeError: from any method, if an argument has another type, such as None for a prediction.
        RuntimeError: from any method that sends a request, in a fork of the process that gave it an `http_client`.
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
        self._options = Options.of(base_url, api_key, timeout, max_retries, backoff)
        self._own = http_client is None
        self._http = sync_transport(http_client)
        self.counts = Counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the caller made them."""
        if self._own:
            self._http.here().close()

    @property
    def timeout(self) -> float:
        """Return the seconds for a whole call."""
        return self._options.timeout

    def with_options(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        backoff: float | None = None,
    ) -> "Wager":
        """Return a client with other options that shares the connections and the counts. Close only the original."""
        options = self._options.changed(
            base_url=base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, backoff=backoff
        )
        self._http.here()  # a queue must not take feedback that it cannot send
        other = copy.copy(self)
        vars(other).update(_options=options, _own=False)
        return other

    def predict(
        self,
        model: str,
        context: Any = None,
        *,
        actions: Sequence[Mapping[str, Any]] | None = None,
        eligible: Sequence[str] | None = None,
        top: int | None = None,
        prediction_id: str | None = None,
        activated: bool | None = None,
        baseline: str | None = None,
        policy: Mapping[str, float] | None = None,
        include_distribution: bool | None = None,
        default: Default | None = None,
    ) -> Prediction:
        """Return the model's answer for a context.

        Args:
            model: the model's name.
            context: an object, a list of numbers, or indices and values; None for a model without features.
            actions: the actions to choose from, each with `id` and `features`, for a model with actions.
            eligible: the labels, or ids of actions, to choose from.
            top: the number of answers, in order.
            prediction_id: your own id; by default a new one.
            activated: False if the prediction waits for `activate`.
            baseline: the label that you would choose yourself.
            policy: the probability of each label, for a model in the mode `logging`.
            include_distribution: whether to return the probability of each label.
            default: the answer if the service is away; with `top`, the answers in order. Without it, that is an error.

        Raises:
            WagerError: if the service refuses the request; without `default`, also if it is away.
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
        """Return a prediction or an error for each item, which has the fields of `predict`, such as `context`."""
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
        """Send feedback for a prediction, or for a slot, or for an id. A repeat is answered as a duplicate.

        Feedback for a default answer is not sent, and has the status `ignored`.

        Raises:
            WagerError: if the service refuses the feedback or is away.
        """
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Feedback(None, "ignored")
        return self._call(operations.feedback(FeedbackItem(prediction_id, correct, reward, true_label, true_labels)))

    def feedback_batch(self, items: Iterable[FeedbackItem | Mapping[str, Any]]) -> list[Feedback | ProblemError]:
        """Send feedback for many predictions; return a result or an error for each item.

        An item may be an object with the fields of `FeedbackItem`; its `prediction_id` may be a prediction or slot.
        """
        given = operations.feedback_items(items)
        ignored = sum(item.prediction_id is None for item in given)
        self.counts.ignored += ignored
        if ignored == len(given):
            return [operations.IGNORED] * ignored
        return self._call(operations.feedback_batch(given))

    def activate(self, prediction: Prediction | Slot | str) -> Activation:
        """Let a prediction that was made with `activated=False` take feedback. A repeat changes nothing.

        Raises:
            WagerError: if the service refuses the request or is away.
        """
        if (prediction_id := id_of(prediction)) is None:
            self.counts.ignored += 1
            return Activation(None, "ignored")
        return self._call(operations.activate(prediction_id))

    def create_model(self, name: str, *, exist_ok: bool = False, **definition: Any) -> Model:
        """Create a model.

        Args:
            name: of the model.
            exist_ok: whether to return the model of this name if there is one, whatever its definition is.
            definition: the other fields of `POST /models`, such as `labels`, `features` and `learner`.

        Raises:
            ModelExistsError: if the name is taken, unless `exist_ok`.
            WagerError: if the service refuses the request or is away.
        """
        operation = model_operations.create_model({"name": name, **given(**definition)})
        if not exist_ok:
            return self._call(operation)
        try:
            return self._call(repeatable(operation))
        except ModelExistsError:
            return self.get_model(name)

    def get_model(self, name: str) -> Model:
        """Return a model: its definition, its counts and its `etag`."""
        return self._call(model_operations.get_model(name))

    def list_models(self, *, page_size: int = 100) -> Iterator[ModelSummary]:
        """Yield the models that the API key allows, by name."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._call(model_operations.list_models(cursor, page_size))
            yield from page.models
            cursor = page.next_cursor

    def change_model(self, model: Model | str, changes: Mapping[str, Any], *, etag: str | None = None) -> Model:
        """Change the labels or the policies of a model.

        Args:
            model: from `get_model`, or a name with `etag`.
            changes: the fields of `PATCH /models/{name}`, such as `labels` and `window_seconds`.
            etag: of the definition to change; `*` for any.

        Raises:
            PreconditionFailedError: if the model has another definition by now.
            WagerError: if the service refuses the request or is away.
        """
        return self._call(model_operations.change_model(model, changes, etag))

    def delete_model(self, name: str) -> None:
        """Delete a model and its log."""
        self._call(model_operations.delete_model(name))

    def explain(
        self, model: str, context: Any = None, *, actions: Sequence[Mapping[str, Any]] | None = None
    ) -> Explanation:
        """Return how a model sees a context. Nothing is stored."""
        return self._call(model_operations.explain(model, context, actions))

    def rounds(self, model: str, *, after: int = 0, page_size: int = 1000) -> Iterator[Round]:
        """Yield the rounds of a model's log, oldest first, from the one after the number `after`."""
        while page := self._call(model_operations.rounds(model, after, page_size)):
            yield from page
            after = page[-1].round

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Send any other request of the service, with the same key, retries and errors.

        Args:
            method: such as GET.
            path: such as `/models/news/statistics`; names in it must be quoted for URLs.
            body: a JSON value.
            params: of the query.
            headers: such as `If-Match`.
            repeatable: whether a repeat is harmless; by default if the method is GET or HEAD.

        Returns:
            The JSON value of the answer; bytes if it is not JSON; None if it is empty.

        Raises:
            WagerError: if the service refuses the request or is away.
        """
        return self._call(
            model_operations.request(
                method, path, body, params=params or {}, headers=headers or {}, repeatable=repeatable
            )
        )

    def health(self) -> Health:
        """Return whether the service is ready.

        Raises:
            WagerError: if it is not.
        """
        return self._call(model_operations.health())

    def _call(self, operation: Operation[T]) -> T:
        return call(operation, self._http.here(), self._options, self.counts)
