"""Reads most bodies of predictions and feedback with msgspec, in a fraction of pydantic's time.

What these functions accept, the pydantic models accept with the same values. For other input, such as feedback with a
true label or an invalid body, they return None, and pydantic reads it. They take at most linear time.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec
from pydantic import TypeAdapter, ValidationError

from service.actions.definition import MOST_ID, SourceReader
from service.contexts.registry import PLAIN, GivenContext, PlainContexts
from service.error_messages.patterns import MOST_COST, NAME, QUALIFIED_PARTS
from service.json_values import JsonObject
from service.prediction_id import SINGLE, PredictionId
from service.schemas.rounds import FeedbackBatchRequest, FeedbackRequest, PredictBatchRequest, PredictRequest
from service.strict_body import Body
from service.tuples import named_tuples

MOST_PLAIN = 2**18  # bytes; larger bodies are not read here: pydantic reads them, in a thread

_MOST_WITH_ACTIONS, _MOST_MEMBERS = 2**15, 1000
"""The same limit for bodies with actions and more than `_MOST_MEMBERS` members: features that are not in the cache take
longer to check than numbers. The reader of larger bodies also limits the members of each object, to the same number."""

_MOST_UNSEEN = 4096  # maximum bytes of a body that is not searched for long exponents
_LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{3}")
"""Exponents of numbers that may take msgspec 20 microseconds each. Pydantic reads bodies of more than `_MOST_UNSEEN`
bytes that contain one."""

_T = TypeVar("_T")
_ContextT = TypeVar("_ContextT")


class DecodedFeedback(NamedTuple):
    """Feedback without true labels."""

    prediction_id: PredictionId
    correct: bool | None
    reward: float | None
    true_label: None = None
    true_labels: None = None


class FeedbackInput(Protocol):
    """A `FeedbackRequest`, or a `DecodedFeedback`."""

    @property
    def prediction_id(self) -> PredictionId:
        """The prediction."""

    @property
    def correct(self) -> bool | None:
        """Whether the answer was right; None if not given."""

    @property
    def reward(self) -> float | None:
        """The reward, from 0 to 1; None if not given."""

    @property
    def true_label(self) -> str | None:
        """The right label; None if not given."""

    @property
    def true_labels(self) -> list[str] | None:
        """The right labels; None if not given."""


class _Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    prediction_id: str
    correct: bool | None = None
    reward: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    true_label: None = None
    true_labels: None = None


class _Feedback(msgspec.Struct, forbid_unknown_fields=True):
    feedback: Annotated[list[_Item], msgspec.Meta(min_length=1)]


class _Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The attributes of a `PredictRequest` with no other options than `include_distribution` and `activated`."""

    model: str
    include_distribution: bool = False
    activated: bool = True
    prediction_id: None = None
    eligible: None = None
    baseline: None = None
    policy: None = None
    costs: None = None
    cost_weight: None = None
    top: None = None


class _Prediction(_Options, Generic[_ContextT], kw_only=True):
    context: _ContextT
    actions: None = None


class _Action(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID)]
    features: msgspec.Raw
    tag: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID)] | None = None
    cost: Annotated[float, msgspec.Meta(ge=0, le=MOST_COST)] | None = None


class _Choice(_Options, kw_only=True):
    actions: list[_Action]
    context: msgspec.Raw = msgspec.Raw()  # empty if absent


class _Predictions(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    contexts: PlainContexts


_FEEDBACK, _PREDICTIONS, _ITEM, _CHOICE = map(msgspec.json.Decoder, (_Feedback, _Predictions, _Item, _Choice))
_CONTEXT = TypeAdapter[Any](GivenContext, config=Body.model_config)
_PREDICTION = [
    (msgspec.json.Decoder(_Prediction[kind.plain]).decode, kind.of_plain)  # type: ignore[name-defined]
    for kind in PLAIN
]
_IDS, _NAME = re.compile(f"^{QUALIFIED_PARTS}$", re.MULTILINE), re.compile(NAME)


def read_decoded_feedback(items: Sequence[Any]) -> Sequence[FeedbackInput] | None:
    """Decode feedback from JSON values; return None if any has true labels or is invalid."""
    if set(map(type, items)) == {DecodedFeedback}:  # decoded by `plain_reader`
        return items
    given = _attempt(msgspec.convert, items, list[_Item])
    return None if given is None else _feedback(given)


def plain_reader(kind: object) -> Callable[[bytes], Any | None] | None:
    """Return the function that reads bodies of type `kind`, or None if there is none.

    The function returns None for a body that pydantic must read. It reads only feedback without true labels, batches of
    dense contexts, and single predictions with a dense or sparse context, or with actions and any context. It caches
    the actions of single predictions, so keep and reuse it.
    """
    if kind is PredictRequest:
        return _PredictionReader()
    return _READERS.get(kind) if isinstance(kind, type) else None


class _PredictionReader:
    """Reads single predictions."""

    def __init__(self) -> None:
        self._actions = SourceReader()

    def __call__(self, body: bytes) -> PredictRequest | None:
        if b'"actions"' in body:
            return self._read_choice(body)
        if _is_unusual(body):
            return None
        for decode, of_plain in _PREDICTION:
            given = _attempt(decode, body)
            if given is not None:
                given.context = of_plain(given.context)
                return cast(PredictRequest, given) if _NAME.fullmatch(given.model) else None
        return None

    def _read_choice(self, body: bytes) -> PredictRequest | None:
        is_short = len(body) < _MOST_WITH_ACTIONS or body.count(b":") <= _MOST_MEMBERS
        given: Any = _attempt(_CHOICE.decode, body) if is_short else None
        if given is None or not _NAME.fullmatch(given.model):
            return None
        # Of repeated members, msgspec keeps only the last one, so the others would not be validated.
        if body.count(b'"context"') > 1 or body.count(b'"features"') != len(given.actions):
            return None
        try:
            given.context = _CONTEXT.validate_json(source) if (source := bytes(given.context)) else None
        except ValidationError:
            return None
        actions = [(each.id, bytes(each.features), each.tag, each.cost) for each in given.actions]
        given.actions = self._actions.read(actions)
        return None if given.actions is None else cast(PredictRequest, given)


def _read_one_feedback(body: bytes) -> DecodedFeedback | None:
    given = _decoded(_ITEM.decode, body)
    items = None if given is None else _feedback([given])
    return None if items is None else items[0]


def _read_feedback(body: bytes) -> FeedbackBatchRequest | None:
    given = _decoded(_FEEDBACK.decode, body)
    items = None if given is None else _feedback(given.feedback)
    fields: JsonObject = {"feedback": items}
    return None if items is None else FeedbackBatchRequest.model_construct(**fields)


def _read_predictions(body: bytes) -> PredictBatchRequest | None:
    given = _decoded(_PREDICTIONS.decode, body)
    if given is None or not _NAME.fullmatch(given.model):
        return None
    return PredictBatchRequest.model_construct(model=given.model, contexts=given.contexts)


_READERS: dict[type[Any], Callable[[bytes], Any | None]] = {
    FeedbackRequest: _read_one_feedback,
    FeedbackBatchRequest: _read_feedback,
    PredictBatchRequest: _read_predictions,
}


def _attempt(read: Callable[..., _T], *args: object) -> _T | None:
    try:
        return read(*args)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _decoded(read: Callable[[bytes], _T], body: bytes) -> _T | None:
    return None if _is_unusual(body) else _attempt(read, body)


def _is_unusual(body: bytes) -> bool:
    return len(body) > _MOST_UNSEEN and _LONG_EXPONENT.search(body) is not None


def _feedback(given: Sequence[_Item]) -> list[DecodedFeedback] | None:
    ids = _parsed([each.prediction_id for each in given])
    if ids is None:
        return None
    rows = [(id_, each.correct, each.reward, None, None) for id_, each in zip(ids, given, strict=True)]
    return named_tuples(DecodedFeedback, rows)


def _parsed(texts: Sequence[str]) -> list[PredictionId] | None:
    lines = "\n".join(texts)
    found = _IDS.findall(lines)
    if len(found) != len(texts) or lines.count("\n") != len(texts) - 1:
        return None
    rows = [(model, block, int(token) if token else SINGLE) for model, block, token in found]
    return named_tuples(PredictionId, rows)
