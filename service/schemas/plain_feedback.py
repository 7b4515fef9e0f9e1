"""Reads feedback without a truth, as most batches have it, in a fifth of the time that pydantic needs."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from service.prediction_id import SINGLE, PredictionId
from service.wording.patterns import QUALIFIED_PARTS


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


_IDS = re.compile(f"^{QUALIFIED_PARTS}$", re.MULTILINE)


def read_plain(items: Sequence[Any]) -> list[PlainFeedback] | None:
    """Return feedback from JSON values; None if any has a truth or is invalid."""
    try:
        given = msgspec.convert(items, list[_Item])
    except msgspec.ValidationError:
        return None
    ids = _parsed([each.prediction_id for each in given])
    if ids is None:
        return None
    return [PlainFeedback(id_, each.correct, each.reward) for id_, each in zip(ids, given, strict=True)]


def _parsed(texts: Sequence[str]) -> list[PredictionId] | None:
    """Parse wire forms of ids, all with one search; return None if one is invalid."""
    lines = "\n".join(texts)
    found = _IDS.findall(lines)
    if len(found) != len(texts) or lines.count("\n") != len(texts) - 1:
        return None
    return [PredictionId(model, block, int(token) if token else SINGLE) for model, block, token in found]
