"""Builds requests and reads their answers, without network access, for both clients."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar, overload
from urllib.parse import quote

from wager_client import checks
from wager_client.errors import ProblemError, UnexpectedAnswerError, problem_of, problem_of_answer
from wager_client.results import (
    Activation,
    Decision,
    Explanation,
    Feedback,
    Health,
    Json,
    Model,
    ModelSummary,
    Prediction,
    Round,
    Slot,
    read,
)

T = TypeVar("T")


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]  # names are in lower case
    content: bytes

    def json(self) -> Any:
        """Return the body. Raises `UnexpectedAnswerError` if it is not JSON."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise UnexpectedAnswerError(f"the answer is not JSON: {self.content[:100]!r}") from error

    def lines(self) -> list[Any]:
        """Return the values of a body with one JSON value per line. Raises `UnexpectedAnswerError` for other lines."""
        return [self._replace(content=line).json() for line in self.content.split(b"\n") if line]


@dataclass(frozen=True)
class Operation(Generic[T]):
    """One request, and the function that reads its answer.

    `repeatable` means that a repeat is harmless even if the service has executed the request. `quick` means that the
    service answers within milliseconds, so that an attempt need not wait for the whole timeout.
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
        """Encode the body; arrays become lists.

        Raises `ValueError` for NaN or infinity, `TypeError` for values that JSON cannot express.
        """
        return None if self.body is None else json.dumps(self.body, allow_nan=False, default=_plain).encode()

    def result(self, answer: Answer) -> T:
        """Read an answer. Raises `ProblemError` for a refusal, `UnexpectedAnswerError` if the answer is unreadable."""
        if 200 <= answer.status < 300:
            return self.read(answer)
        raise problem_of_answer(*answer)


def _plain(value: object) -> Any:
    """Convert an array or a number of numpy, or of a similar package."""
    if not callable(convert := getattr(value, "tolist", None)):
        raise TypeError(f"got an object of the type {type(value).__name__}, which JSON cannot express")
    return convert()


def _of_model(name: str) -> dict[str, str]:
    """Return the header in which a load balancer finds the model, however long the body is."""
    return {"Wager-Model": quote(name, safe="")}


def repeatable(operation: Operation[T]) -> Operation[T]:
    """Return a repeatable copy of an operation."""
    return replace(operation, repeatable=True)


def given(**values: object) -> dict[str, Any]:
    """Return the values that are not None; convert tuples and sets to lists."""
    return {name: _listed(value) for name, value in values.items() if value is not None}


def _listed(value: object) -> Any:
    return list(value) if isinstance(value, (tuple, frozenset, set)) else value


def answer_as(kind: type[T]) -> Callable[[Answer], T]:
    """Return a function that reads answers as one kind of result."""
    return lambda answer: read(kind, answer.json())


def list_in(body: object, name: str) -> list[Json]:
    """Return a list of objects in an answer's body. Raises `UnexpectedAnswerError` without such a list."""
    listed = body.get(name) if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UnexpectedAnswerError(f"the answer has no list {name!r} of objects")
    return listed


def problem_in(body: Json) -> ProblemError:
    """Return the error for a failed item of an answer."""
    return problem_of(int(body.get("status", 0)), body)


ResultT = TypeVar("ResultT", Prediction, Feedback, Activation, Decision)

Default = str | Sequence[str]  # used if the service is away: a label, or with `top` the labels in order


@dataclass(frozen=True)
class FeedbackItem:
    """Feedback for one prediction: `correct`, the true label or labels, or both; or only `reward`."""

    prediction_id: str | None
    correct: bool | None = None
    reward: float | None = None
    true_label: str | None = None
    true_labels: Sequence[str] | None = None

    def body(self) -> dict[str, Any]:
        """Return the item as a body for the service."""
        return given(**self.__dict__)


_NONE = object()


@overload
def id_of(prediction: str) -> str: ...
@overload
def id_of(prediction: Prediction | Slot | str) -> str | None: ...
def id_of(prediction: Prediction | Slot | str) -> str | None:
    """Return the id of a prediction or slot; None for a default answer. Raises `TypeError` for other values."""
    found = prediction if isinstance(prediction, str) else getattr(prediction, "prediction_id", _NONE)
    if found is not None and not isinstance(found, str):
        raise checks.wrong("prediction", prediction, "a prediction, a slot, or the id of one")
    return found


def new_id() -> str:
    """Return a new prediction id."""
    return uuid.uuid4().hex


def predict(model: str, item: Json, default: Default | None = None) -> Operation[Prediction]:
    """Build the request for one prediction. A missing id is generated, so that the request can be repeated."""
    checks.default(default)
    body = {"model": checks.model_name(model), "prediction_id": new_id(), **item}
    asked = _full_id(model, body)
    sent = body, _of_model(model)
    return Operation("POST", "/predict", lambda answer: _read(Prediction, answer.json(), asked), *sent, quick=True)


def _full_id(model: str, item: Json) -> str:
    own = str(item["prediction_id"])
    return own if ":" in own else f"{model}:{own}"


def _read(kind: type[ResultT], given: object, asked: str) -> ResultT:
    """Read the result for the id `asked`. Raises `UnexpectedAnswerError` if it is unreadable or has another id."""
    found = read(kind, given)
    if found.prediction_id != asked:
        raise UnexpectedAnswerError(f"the answer is for {found.prediction_id!r}; the request was for {asked!r}")
    return found


def default_prediction(model: str, default: Default) -> Prediction:
    """Return the caller's default answer as a prediction."""
    if isinstance(default, str):
        return Prediction(None, model, default, is_default=True)
    slots = tuple(Slot(None, label, None, is_default=True) for label in default)
    return Prediction(None, model, slots=slots, is_default=True)


def predict_batch(model: str, items: Iterable[Json]) -> Operation[list[Prediction | ProblemError]]:
    """Build the request for many predictions. Missing ids are generated, as for `predict`."""
    found = enumerate(checks.items("items", items, "dictionaries with the fields of `predict`"))
    listed = [dict(checks.mapping(f"items[{n}]", item)) for n, item in found]
    for item in listed:
        if item.get("prediction_id") is None:
            item["prediction_id"] = new_id()
    body = {"model": checks.model_name(model), "items": listed}
    asked = [_full_id(model, item) for item in listed]
    read_all = _items(Prediction, "predictions", asked)
    return Operation("POST", "/predict/batch", read_all, body, _of_model(model), quick=True)


def feedback(item: FeedbackItem) -> Operation[Feedback]:
    """Build the request that sends feedback. A repeat is harmless: the service reports a duplicate."""
    asked, body = str(item.prediction_id), item.body()
    model = _of_model(asked.partition(":")[0])
    return Operation("POST", "/feedback", lambda answer: _read(Feedback, answer.json(), asked), body, model, quick=True)


IGNORED = Feedback(None, "ignored")  # the result of feedback for a default answer


def feedback_items(items: Iterable[FeedbackItem | Json]) -> list[FeedbackItem]:
    """Convert mappings to feedback items, and predictions or slots in them to ids. Raises `TypeError` for others."""
    listed = checks.items("items", items, "FeedbackItem, or of dictionaries with its fields")
    return [_feedback_item(f"items[{n}]", each) for n, each in enumerate(listed)]


def _feedback_item(name: str, given: object) -> FeedbackItem:
    try:
        item = given if isinstance(given, FeedbackItem) else FeedbackItem(**checks.mapping(name, given))
        return item if item.prediction_id is None else replace(item, prediction_id=id_of(item.prediction_id))
    except TypeError as error:
        raise TypeError(f"{name}: got {checks.shown(given)}: {error}") from None


def feedback_batch(items: Sequence[FeedbackItem]) -> Operation[list[Feedback | ProblemError]]:
    """Build the request that sends a batch. Items for default answers are not sent, and have the result `IGNORED`."""
    bodies = [item.body() for item in items if item.prediction_id is not None]
    ids = [body["prediction_id"] for body in bodies]
    read_sent, model = _items(Feedback, "results", ids), _of_model(ids[0].partition(":")[0]) if ids else {}

    def read_all(answer: Answer) -> list[Feedback | ProblemError]:
        results = iter(read_sent(answer))
        return [IGNORED if item.prediction_id is None else next(results) for item in items]

    return Operation("POST", "/feedback/batch", read_all, {"feedback": bodies}, model, quick=True)


def _items(kind: type[ResultT], name: str, asked: Sequence[str]) -> Callable[[Answer], list[ResultT | ProblemError]]:
    """Return a function that reads the results of a batch, in the order of the ids `asked`."""

    def read_all(answer: Answer) -> list[ResultT | ProblemError]:
        listed = list_in(answer.json(), name)
        if len(listed) != len(asked):
            raise UnexpectedAnswerError(f"the answer has {len(listed)} {name} for {len(asked)} items")
        pairs = zip(listed, asked, strict=True)
        return [problem_in(each) if "title" in each else _read(kind, each, id_) for each, id_ in pairs]

    return read_all


def activate(prediction_id: str) -> Operation[Activation]:
    """Build the request that activates a prediction."""
    sent = {"prediction_id": prediction_id}, _of_model(prediction_id.partition(":")[0])
    return Operation(
        "POST", "/activate", lambda answer: _read(Activation, answer.json(), prediction_id), *sent, quick=True
    )


def create_model(definition: Json) -> Operation[Model]:
    """Build the request that creates a model. A repeat would be refused, because the model then exists."""
    checks.model_name(definition.get("name"))
    return Operation("POST", "/models", _model, dict(definition), repeatable=False)


def get_model(name: str) -> Operation[Model]:
    """Build the request for a model."""
    return Operation("GET", _path(name), _model)


def _model(answer: Answer) -> Model:
    return read(Model, answer.json(), etag=answer.headers.get("etag"))


class ModelPage(NamedTuple):
    """A page of models."""

    models: list[ModelSummary]
    next_cursor: str | None


def list_models(cursor: str, limit: int, search: str, sort: str) -> Operation[ModelPage]:
    """Build the request for a page of models. The first page has an empty cursor."""
    params = {"search": search, "sort": sort, "cursor": cursor, "limit": str(limit)}
    return Operation("GET", "/models", _page, params=params)


def _page(answer: Answer) -> ModelPage:
    body = answer.json()
    return ModelPage([_summary(each) for each in list_in(body, "models")], body.get("next_cursor"))


def _summary(body: Json) -> ModelSummary:
    problem = body.get("problem")
    return read(ModelSummary, body, problem=None if problem is None else problem_in(problem))


def change_model(model: Model | str, changes: Json, etag: str | None) -> Operation[Model]:
    """Build the request that changes a model. Raises `ValueError` without an ETag, `TypeError` for wrong types.

    The service recognises a repeated change by its ETag. With `*`, a repeat could overwrite another client's change.
    """
    if not isinstance(model, str | Model):
        raise checks.wrong("model", model, "a model from `get_model`, or its name")
    checks.mapping("changes", changes)
    name, tag = (model, etag) if isinstance(model, str) else (model.name, etag or model.etag)
    if tag is None:
        raise ValueError("change_model needs the model from get_model, or an etag; '*' overwrites any change")
    headers = {"If-Match": tag}
    return Operation("PATCH", _path(name), _model, dict(changes), headers, repeatable=tag != "*")


def delete_model(name: str) -> Operation[None]:
    """Build the request that deletes a model. A repeat could delete a new model of the same name."""
    return Operation("DELETE", _path(name), lambda _: None, repeatable=False)


def explain(name: str, context: object, actions: object) -> Operation[Explanation]:
    """Build the request that explains a context."""
    return Operation("POST", f"{_path(name)}/explain", answer_as(Explanation), given(context=context, actions=actions))


def prediction(prediction_id: str) -> Operation[Decision]:
    """Build the request that explains a stored prediction."""
    own = checks.text("prediction_id", prediction_id, "the id of a prediction")
    return Operation("GET", f"/predictions/{quote(own, safe='')}", lambda answer: _read(Decision, answer.json(), own))


def rounds(name: str, after: int, limit: int) -> Operation[list[Round]]:
    """Build the request for up to `limit` rounds after round `after`."""
    params = {"after": str(after), "limit": str(limit)}
    return Operation(
        "GET", f"{_path(name)}/rounds", lambda answer: [read(Round, line) for line in answer.lines()], params=params
    )


def health() -> Operation[Health]:
    """Build the request for the service's health."""
    return Operation("GET", "/readyz", answer_as(Health))


def request(
    method: str, path: str, body: object, *, params: Json, headers: Mapping[str, str], repeatable: bool | None
) -> Operation[Any]:
    """Build any other request. Raises `ValueError` for an invalid path, `TypeError` for wrong types."""
    checks.text("method", method, "a method such as GET")
    if not checks.text("path", path, "a path such as /models/news/statistics").startswith("/"):
        raise ValueError(f"got the path {path!r}; must begin with a slash, such as /models/news/statistics")
    may_repeat = method.upper() in ("GET", "HEAD") if repeatable is None else repeatable
    texts = {name: str(value) for name, value in checks.mapping("params", params).items()}
    return Operation(method.upper(), path, _anything, body, checks.mapping("headers", headers), texts, may_repeat)


def _anything(answer: Answer) -> Any:
    """Return an answer as a JSON value, as bytes if it is not JSON, or None if it is empty."""
    if not answer.content:
        return None
    return answer.json() if "json" in answer.headers.get("content-type", "").partition(";")[0] else answer.content


def _path(name: str) -> str:
    return f"/models/{quote(checks.model_name(name), safe='')}"
