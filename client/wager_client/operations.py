"""The requests that predict and give feedback."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from wager_client import checks
from wager_client.errors import ProblemError, UnexpectedAnswerError
from wager_client.operation import Answer, Operation, given, list_in, problem_in
from wager_client.reading import read
from wager_client.results import (
    Activation,
    Feedback,
    Prediction,
    Slot,
)

T = TypeVar("T", Prediction, Feedback, Activation)

Default = str | Sequence[str]
"""The caller's answer if the service is away: a label, or with `top` the labels in order."""


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


_NONE = object()


@overload
def id_of(prediction: str) -> str: ...
@overload
def id_of(prediction: Prediction | Slot | str) -> str | None: ...
def id_of(prediction: Prediction | Slot | str) -> str | None:
    """Return the id of a prediction; None for a default answer.

    Raises:
        TypeError: if it is no prediction, slot or id.
    """
    found = prediction if isinstance(prediction, str) else getattr(prediction, "prediction_id", _NONE)
    if found is not None and not isinstance(found, str):
        raise checks.wrong("prediction", prediction, "a prediction, a slot, or the id of one")
    return found


def new_id() -> str:
    """Return a new prediction id."""
    return uuid.uuid4().hex


def predict(model: str, item: Mapping[str, Any], default: Default | None = None) -> Operation[Prediction]:
    """Return the request for one prediction.

    Args:
        model: the model's name.
        item: the fields of the request; one without `prediction_id` gets a new one, so that it can be repeated.
        default: the caller's answer if the service is away, which is checked before it is needed.

    Raises:
        TypeError: if the name or the default has another type.
        ValueError: if one of them is empty.
    """
    checks.default(default)
    body = {"model": checks.model_name(model), "prediction_id": new_id(), **item}
    asked = _full_id(model, body)
    return Operation("POST", "/predict", lambda answer: _read(Prediction, answer.json(), asked), body, quick=True)


def _full_id(model: str, item: Mapping[str, Any]) -> str:
    """Return the id that the answer to an item has."""
    own = str(item["prediction_id"])
    return own if ":" in own else f"{model}:{own}"


def _read(kind: type[T], given: Any, asked: str) -> T:
    """Return a result.

    Raises:
        UnexpectedAnswerError: if this client cannot read it, or it is of another prediction, as on a connection that
            two processes use.
    """
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


def predict_batch(model: str, items: Iterable[Mapping[str, Any]]) -> Operation[list[Prediction | ProblemError]]:
    """Return the request for many predictions. See `predict`."""
    found = enumerate(checks.items("items", items, "dictionaries with the fields of `predict`"))
    listed = [_identified(checks.mapping(f"items[{n}]", item)) for n, item in found]
    body = {"model": checks.model_name(model), "items": listed}
    asked = [_full_id(model, item) for item in listed]
    return Operation("POST", "/predict/batch", _items(Prediction, "predictions", asked), body, quick=True)


def _identified(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item with an id."""
    return {**item, "prediction_id": new_id()} if item.get("prediction_id") is None else dict(item)


def feedback(item: FeedbackItem) -> Operation[Feedback]:
    """Return the request that sends feedback. A repeat is answered as a duplicate."""
    asked = str(item.prediction_id)
    return Operation("POST", "/feedback", lambda answer: _read(Feedback, answer.json(), asked), item.body(), quick=True)


IGNORED = Feedback(None, "ignored")
"""The result of feedback for a default answer."""


def feedback_items(items: Iterable[FeedbackItem | Mapping[str, Any]]) -> list[FeedbackItem]:
    """Return items of feedback. An object has their fields; a prediction or slot may replace its id.

    Raises:
        TypeError: if an object has other fields, or an item is no object.
    """
    listed = checks.items("items", items, "FeedbackItem, or of dictionaries with its fields")
    return [_feedback_item(f"items[{n}]", each) for n, each in enumerate(listed)]


def _feedback_item(name: str, given: Any) -> FeedbackItem:
    try:
        item = given if isinstance(given, FeedbackItem) else FeedbackItem(**checks.mapping(name, given))
        return item if item.prediction_id is None else replace(item, prediction_id=id_of(item.prediction_id))
    except TypeError as error:
        raise TypeError(f"{name}: got {checks.shown(given)}: {error}") from None


def feedback_batch(items: Sequence[FeedbackItem]) -> Operation[list[Feedback | ProblemError]]:
    """Return the request that sends much feedback. That for default answers is not sent, and `ignored`."""
    bodies = [item.body() for item in items if item.prediction_id is not None]
    read_sent = _items(Feedback, "results", [body["prediction_id"] for body in bodies])

    def read_all(answer: Answer) -> list[Feedback | ProblemError]:
        results = iter(read_sent(answer))
        return [IGNORED if item.prediction_id is None else next(results) for item in items]

    return Operation("POST", "/feedback/batch", read_all, {"feedback": bodies}, quick=True)


def _items(kind: type[T], name: str, asked: Sequence[str]) -> Callable[[Answer], list[T | ProblemError]]:
    """Return a reader of the results of a batch, in the order of the ids."""

    def read_all(answer: Answer) -> list[T | ProblemError]:
        listed = list_in(answer.json(), name)
        if len(listed) != len(asked):
            raise UnexpectedAnswerError(f"the answer has {len(listed)} {name} for {len(asked)} items")
        pairs = zip(listed, asked, strict=True)
        return [problem_in(each) if "title" in each else _read(kind, each, id_) for each, id_ in pairs]

    return read_all


def activate(prediction_id: str) -> Operation[Activation]:
    """Return the request that activates a prediction."""
    body = {"prediction_id": prediction_id}
    return Operation(
        "POST", "/activate", lambda answer: _read(Activation, answer.json(), prediction_id), body, quick=True
    )
