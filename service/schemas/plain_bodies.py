"""Reads the bodies of most batches with msgspec, in a fraction of the time that pydantic needs.

Whatever these functions accept, the pydantic models accept, with the same values. All other input, such as a truth or
an error to report, is left to the models: the functions then return None, in a time that the size of the input bounds.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec

from service.contexts.registry import PlainContexts
from service.prediction_id import SINGLE, PredictionId
from service.schemas.rounds import FeedbackBatchRequest, PredictBatchRequest
from service.strict_body import Body
from service.tuples import named_tuples
from service.wording.patterns import NAME, QUALIFIED_PARTS

_T = TypeVar("_T")


class GivenFeedback(Protocol):
    """Feedback for one prediction, as `service.schemas.rounds.FeedbackRequest`."""

    @property
    def prediction_id(self) -> PredictionId:
        """The id of the prediction."""

    @property
    def correct(self) -> bool | None:
        """Whether the answer was right."""

    @property
    def reward(self) -> float | None:
        """How good the answer was, from 0 to 1."""

    @property
    def true_label(self) -> str | None:
        """The label that is right."""

    @property
    def true_labels(self) -> list[str] | None:
        """The labels that are right, of a model that answers several."""


class PlainFeedback(NamedTuple):
    """Feedback without a truth."""

    prediction_id: PredictionId
    correct: bool | None
    reward: float | None
    true_label: None = None
    true_labels: None = None


class _Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    prediction_id: str
    correct: bool | None = None
    reward: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    true_label: None = None
    true_labels: None = None


class _Feedback(msgspec.Struct, forbid_unknown_fields=True):
    feedback: Annotated[list[_Item], msgspec.Meta(min_length=1)]


class _Predictions(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    contexts: PlainContexts


_FEEDBACK, _PREDICTIONS = msgspec.json.Decoder(_Feedback), msgspec.json.Decoder(_Predictions)
_IDS, _NAME = re.compile(f"^{QUALIFIED_PARTS}$", re.MULTILINE), re.compile(NAME)


def read_plain_feedback(items: Sequence[Any]) -> list[PlainFeedback] | None:
    """Return feedback from JSON values; None if any has a truth or is invalid."""
    if set(map(type, items)) == {PlainFeedback}:  # by `read_plain_body`
        return list(items)
    given = _attempt(msgspec.convert, items, list[_Item])
    return None if given is None else _feedback(given)


def read_plain_body(body: bytes, kind: Any) -> Body | None:
    """Return a batch of contexts that are lists of numbers, or of feedback without a truth; None for another body.

    Args:
        body: JSON.
        kind: the type of the body; others than those of batches give None.
    """
    read = _READERS.get(kind) if isinstance(kind, type) else None
    return None if read is None else read(body)


def _read_feedback(body: bytes) -> FeedbackBatchRequest | None:
    given = _attempt(_FEEDBACK.decode, body)
    items = None if given is None else _feedback(given.feedback)
    fields: dict[str, Any] = {"feedback": items}
    return None if items is None else FeedbackBatchRequest.model_construct(**fields)


def _read_predictions(body: bytes) -> PredictBatchRequest | None:
    given = _attempt(_PREDICTIONS.decode, body)
    if given is None or not _NAME.fullmatch(given.model):
        return None
    return PredictBatchRequest.model_construct(model=given.model, contexts=given.contexts)


_READERS: dict[type[Body], Callable[[bytes], Body | None]] = {
    FeedbackBatchRequest: _read_feedback,
    PredictBatchRequest: _read_predictions,
}


def _attempt(read: Callable[..., _T], *args: Any) -> _T | None:
    try:
        return read(*args)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _feedback(given: Sequence[_Item]) -> list[PlainFeedback] | None:
    ids = _parsed([each.prediction_id for each in given])
    if ids is None:
        return None
    rows = [(id_, each.correct, each.reward, None, None) for id_, each in zip(ids, given, strict=True)]
    return named_tuples(PlainFeedback, rows)


def _parsed(texts: Sequence[str]) -> list[PredictionId] | None:
    """Parse wire forms of ids, all with one search; return None if one is invalid."""
    lines = "\n".join(texts)
    found = _IDS.findall(lines)
    if len(found) != len(texts) or lines.count("\n") != len(texts) - 1:
        return None
    rows = [(model, block, int(token) if token else SINGLE) for model, block, token in found]
    return named_tuples(PredictionId, rows)
