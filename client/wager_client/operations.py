"""The requests of the client and the reading of their answers, without a network. Both clients use them."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar, overload
from urllib.parse import quote

from wager_client.errors import ProblemError, UnexpectedAnswerError, problem_of, problem_of_answer
from wager_client.reading import read
from wager_client.results import (
    Activation,
    Explanation,
    Feedback,
    Health,
    Json,
    Model,
    ModelSummary,
    Prediction,
    Round,
    Slot,
)

T = TypeVar("T")

Default = str | Sequence[str]
"""The caller's answer if the service is away: a label, or with `top` the labels in order."""


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    content: bytes

    def json(self) -> Any:
        """Return the body.

        Raises:
            UnexpectedAnswerError: if it is not JSON.
        """
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise UnexpectedAnswerError(f"the answer is not JSON: {self.content[:100]!r}") from error

    def lines(self) -> list[Any]:
        """Return the lines of a body, each of which is JSON.

        Raises:
            UnexpectedAnswerError: if one is not JSON.
        """
        return [self._replace(content=line).json() for line in self.content.split(b"\n") if line]


@dataclass(frozen=True)
class Operation(Generic[T]):
    """One request, and how to read its answer.

    Attributes:
        repeatable: whether the request may be sent again if the service may have done it.
        quick: whether the service answers within milliseconds, so that an attempt need not have the whole time.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    quick: bool = False

    def content(self) -> bytes | None:
        """Return the body to send.

        Raises:
            ValueError: if it has NaN or infinity.
            TypeError: if it has a value that JSON cannot express.
        """
        return None if self.body is None else json.dumps(self.body, allow_nan=False).encode()

    def result(self, answer: Answer) -> T:
        """Return the result of the answer.

        Raises:
            ProblemError: if the service refused the request.
            UnexpectedAnswerError: if this client cannot read the answer.
        """
        if 200 <= answer.status < 300:
            return self.read(answer)
        raise problem_of_answer(*answer)


@dataclass(frozen=True)
class FeedbackItem:
    """Feedback for one prediction: `correct`, `true_label` or `true_labels`, or only `reward`."""

    prediction_id: str | None
    correct: bool | None = None
    reward: float | None = None
    true_label: str | None = None
    true_labels: Sequence[str] | None = None

    def body(self) -> dict[str, Any]:
        """Return the item as the service reads it."""
        return given(**self.__dict__)


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None; sequences as lists."""
    return {name: _listed(value) for name, value in values.items() if value is not None}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, frozenset, set)) else value


@overload
def id_of(prediction: str) -> str: ...
@overload
def id_of(prediction: Prediction | Slot | str) -> str | None: ...
def id_of(prediction: Prediction | Slot | str) -> str | None:
    """Return the id of a prediction; None for a default answer."""
    return prediction if isinstance(prediction, str) else prediction.prediction_id


def new_id() -> str:
    """Return a new prediction id."""
    return uuid.uuid4().hex


def _as(kind: type[T]) -> Callable[[Answer], T]:
    return lambda answer: read(kind, answer.json())


def predict(model: str, item: Mapping[str, Any]) -> Operation[Prediction]:
    """Return the request for one prediction.

    Args:
        model: the model's name.
        item: the fields of the request; one without `prediction_id` gets a new one, so that it can be repeated.
    """
    body = {"model": model, "prediction_id": new_id(), **item}
    return Operation("POST", "/predict", _as(Prediction), body, quick=True)


def default_prediction(model: str, default: Default) -> Prediction:
    """Return the caller's default answer as a prediction."""
    if isinstance(default, str):
        return Prediction(None, model, default, is_default=True)
    slots = tuple(Slot(None, label, None, is_default=True) for label in default)
    return Prediction(None, model, slots=slots, is_default=True)


def predict_batch(model: str, items: Iterable[Mapping[str, Any]]) -> Operation[list[Prediction | ProblemError]]:
    """Return the request for many predictions. See `predict`."""
    listed = [{"prediction_id": new_id(), **item} for item in items]
    body = {"model": model, "items": listed}
    return Operation("POST", "/predict/batch", _items(Prediction, "predictions", len(listed)), body, quick=True)


def feedback(item: FeedbackItem) -> Operation[Feedback]:
    """Return the request that sends feedback. A repeat is answered as a duplicate."""
    return Operation("POST", "/feedback", _as(Feedback), item.body(), quick=True)


IGNORED = Feedback(None, "ignored")
"""The result of feedback for a default answer."""


def feedback_items(items: Iterable[FeedbackItem | Mapping[str, Any]]) -> list[FeedbackItem]:
    """Return items of feedback. An object has their fields; a prediction or slot may replace its id.

    Raises:
        TypeError: if an object has other fields.
    """
    found = [each if isinstance(each, FeedbackItem) else FeedbackItem(**each) for each in items]
    return [
        each if each.prediction_id is None else replace(each, prediction_id=id_of(each.prediction_id)) for each in found
    ]


def feedback_batch(items: Sequence[FeedbackItem]) -> Operation[list[Feedback | ProblemError]]:
    """Return the request that sends much feedback. That for default answers is not sent, and `ignored`."""
    bodies = [item.body() for item in items if item.prediction_id is not None]
    read_sent = _items(Feedback, "results", len(bodies))

    def read_all(answer: Answer) -> list[Feedback | ProblemError]:
        results = iter(read_sent(answer))
        return [IGNORED if item.prediction_id is None else next(results) for item in items]

    return Operation("POST", "/feedback/batch", read_all, {"feedback": bodies}, quick=True)


def _items(kind: type[T], name: str, n: int) -> Callable[[Answer], list[T | ProblemError]]:
    """Return a reader of the n results of a batch."""

    def read_all(answer: Answer) -> list[T | ProblemError]:
        listed = _list(answer.json(), name)
        if len(listed) != n:
            raise UnexpectedAnswerError(f"the answer has {len(listed)} {name} for {n} items")
        return [_problem(each) if "title" in each else read(kind, each) for each in listed]

    return read_all


def _list(body: Any, name: str) -> list[Json]:
    listed = body.get(name) if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UnexpectedAnswerError(f"the answer has no list {name!r} of objects")
    return listed


def _problem(body: Json) -> ProblemError:
    return problem_of(int(body.get("status", 0)), body)


def activate(prediction_id: str) -> Operation[Activation]:
    """Return the request that activates a prediction."""
    return Operation("POST", "/activate", _as(Activation), {"prediction_id": prediction_id}, quick=True)


def create_model(definition: Mapping[str, Any]) -> Operation[Model]:
    """Return the request that creates a model. Its repeat would be refused, as the model exists."""
    return Operation("POST", "/models", _model, dict(definition), repeatable=False)


def get_model(name: str) -> Operation[Model]:
    """Return the request for a model."""
    return Operation("GET", _path(name), _model)


def _model(answer: Answer) -> Model:
    return read(Model, answer.json(), etag=answer.headers.get("etag"))


class ModelPage(NamedTuple):
    """A page of models."""

    models: list[ModelSummary]
    next_cursor: str | None


def list_models(cursor: str, limit: int) -> Operation[ModelPage]:
    """Return the request for a page of models."""
    return Operation("GET", "/models", _page, params={"cursor": cursor, "limit": str(limit)})


def _page(answer: Answer) -> ModelPage:
    body = answer.json()
    return ModelPage([_summary(each) for each in _list(body, "models")], body.get("next_cursor"))


def _summary(body: Json) -> ModelSummary:
    problem = body.get("problem")
    return read(ModelSummary, body, problem=None if problem is None else _problem(problem))


def change_model(model: Model | str, changes: Mapping[str, Any], etag: str | None) -> Operation[Model]:
    """Return the request that changes a model.

    Raises:
        ValueError: without an ETag.
    """
    name, tag = (model, etag) if isinstance(model, str) else (model.name, etag or model.etag)
    if tag is None:
        raise ValueError("change_model needs the model of get_model, or its etag; '*' overwrites any change")
    headers = {"If-Match": tag}
    return Operation("PATCH", _path(name), _model, dict(changes), headers, repeatable=tag != "*")


def delete_model(name: str) -> Operation[None]:
    """Return the request that deletes a model. A repeat could delete another one of the same name."""
    return Operation("DELETE", _path(name), lambda _: None, repeatable=False)


def explain(name: str, context: Any, actions: Any) -> Operation[Explanation]:
    """Return the request that explains a context."""
    return Operation("POST", f"{_path(name)}/explain", _as(Explanation), given(context=context, actions=actions))


def rounds(name: str, after: int, limit: int) -> Operation[list[Round]]:
    """Return the request for a page of rounds."""
    params = {"after": str(after), "limit": str(limit)}
    return Operation(
        "GET", f"{_path(name)}/rounds", lambda answer: [read(Round, line) for line in answer.lines()], params=params
    )


def health() -> Operation[Health]:
    """Return the request that asks whether the service is ready."""
    return Operation("GET", "/readyz", _as(Health))


def _path(name: str) -> str:
    return f"/models/{quote(name, safe='')}"


def repeatable(operation: Operation[T]) -> Operation[T]:
    """Return an operation that may be repeated."""
    return replace(operation, repeatable=True)
